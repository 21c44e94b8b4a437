"""The export step: models whose forward takes more than tensors one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from modelbuild_rules.model.call import parse_call


def made(*names: str, shape: tuple[int | str, ...] = (2, 3)) -> list[dict[str, Any]]:
    return [{"name": name, "shape": list(shape), "dtype": "float32", "range": None} for name in names]


@pytest.fixture
def called(export: Callable[..., Any]) -> Callable[..., Any]:
    """Export a forward with this signature and body, called with these inputs, and return it."""

    def run(forward: str, call: str | None, *names: str, shape: tuple[int | str, ...] = (2, 3), **params: Any) -> Any:
        source = f"class Net(nn.Module):\n    def forward(self, {forward}"
        parsed = None if call is None else parse_call(call, names)
        return export(source, made(*names, shape=shape), call=parsed, **params)

    return run


CALLS = {
    "by name": ("x, mask=None, bias=None):\n        return x * 2 + bias", "x, bias=b"),
    "in another order": ("first, second):\n        return second * 2 + first", "b, x"),
    "a tuple": ("pair):\n        x, b = pair\n        return x * 2 + b", "(x, b)"),
    "a list in a dictionary": ("batch):\n        return batch['x'][0] * 2 + batch['b']", "{'b': b, 'x': [x]}"),
    "any number": ("*all):\n        return all[0] * 2 + all[1]", "x, b"),
    "any keywords": ("x, **more):\n        return x * 2 + more['b']", "x, b=b"),
    "keywords only": ("*, b, x):\n        return x * 2 + b", "x=x, b=b"),
    "a number": ("x, scale, b):\n        return x * scale + b", "x, 2.0, b"),
    "flags and a text": (
        "x, b, double=False, how=''):\n        return x * (2 if double and how == 'fast' else 1) + b",
        "x, b, double=True, how='fast'",
    ),
    "a constant in the middle of a tuple": ("t):\n        return t[0] * t[1] + t[2]", "(x, 2, b)"),
    "nothing for an argument": ("x, mask, b):\n        return x * 2 + b if mask is None else x", "x, None, b"),
}


@pytest.mark.parametrize("case", CALLS)
def test_the_programs_inputs_are_the_declared_ones_in_their_order(called: Callable[..., Any], case: str) -> None:
    forward, call = CALLS[case]
    found = called(forward, call, "x", "b")
    assert [each["name"] for each in found.json("signature")["inputs"]] == ["x", "b"]
    x, b = found.examples()
    program = found.program()
    assert torch.equal(program.module()(x, b), x * 2 + b)
    assert len(program.graph_signature.input_specs) == 2  # constants are none


def test_a_constant_decides_the_program(called: Callable[..., Any]) -> None:
    forward = "x, scale):\n        return x * scale"
    one, other, same = (called(forward, f"x, {scale}", "x").bytes("debug") for scale in ("2.0", "3.0", "2.00"))
    assert one == same != other


def test_dynamic_dimensions_of_nested_inputs(called: Callable[..., Any]) -> None:
    forward = "pair, *, mask):\n        return torch.cat(pair, 1) + mask[:, :1]"
    bounds = {"n": {"min": 1, "max": 9, "example": None}}
    found = called(forward, "(a, b), mask=mask", "mask", "a", "b", shape=("n", 3), dynamic=bounds)
    assert found.json("signature")["outputs"][0]["shape"] == ["n", 6]
    mask, a, b = (torch.randn(7, 3) for _ in range(3))
    assert torch.equal(found.program().module()(mask, a, b), torch.cat([a, b], 1) + mask[:, :1])


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (
            "x, past=None, mask=None):\n        return x",
            "forward of m/net.py:Net takes 'past' where the input 'mask' is passed; expected call = \"x, mask=mask\"",
        ),
        (
            "x, *, mask):\n        return x",
            "forward of m/net.py:Net, called with the inputs x, mask: too many positional arguments; expected"
            ' call = "x, mask=mask"',
        ),
    ],
)
def test_an_input_is_not_passed_as_another_parameter_than_its_name_says(
    refusal: Callable[..., str], forward: str, message: str
) -> None:
    assert refusal(f"class Net(nn.Module):\n    def forward(self, {forward}", made("x", "mask")) == message
