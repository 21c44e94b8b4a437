"""The export step: results in containers of every kind, and the outputs' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

KINDS = """
import collections
import dataclasses
import typing
from torch.utils import _pytree

@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    hidden: tuple = ()
    loss: typing.Optional[torch.Tensor] = None

class Named(typing.NamedTuple):
    boxes: torch.Tensor
    scores: torch.Tensor

class Output(collections.OrderedDict):
    '''As transformers has it: a dictionary with attributes, registered without keys.'''

class Cache:
    def __init__(self, keys, values):
        self.keys, self.values = keys, values

class Pair:
    def __init__(self, one, other):
        self.one, self.other = one, other

_pytree.register_pytree_node(Output, lambda o: (list(o.values()), list(o)), lambda v, k: Output(zip(k, v)))
_pytree.register_pytree_node(
    Cache,
    lambda c: ([c.keys, c.values], None),
    lambda v, _: Cache(*v),
    flatten_with_keys_fn=lambda c: (
        [(_pytree.MappingKey("key_cache"), c.keys), (_pytree.GetAttrKey("value_cache"), c.values)], None
    ),
)
_pytree.register_pytree_node(Pair, lambda p: ([p.one, p.other], None), lambda v, _: Pair(*v))

class Net(nn.Module):
    def forward(self, x):
        a, b, c = x + 1, x + 2, x + 3
        return RETURNED
"""

RESULTS = {
    "a": ["output"],
    "(a,)": ["output"],
    "[a, b]": ["output0", "output1"],
    "(a, (b, c))": ["output0", "output1.0", "output1.1"],
    "{'boxes': a, 'features': {'0': b, 'pool': c}}": ["boxes", "features.0", "features.pool"],
    "{'output': [a, b], 3: c}": ["output.0", "output.1", "3"],
    "collections.OrderedDict(z=a, y=[b, c])": ["z", "y.0", "y.1"],
    "Named(a, scores=b)": ["boxes", "scores"],
    "Result(a, (b, c))": ["logits", "hidden.0", "hidden.1"],
    "Result(a, (b,), loss=c)": ["logits", "hidden.0", "loss"],
    "Output(logits=a, past=Cache([b], [c]))": ["logits", "past.key_cache.0", "past.value_cache.0"],
    "[Result(a), Result(b)]": ["output0.logits", "output1.logits"],
    "Pair(a, b)": ["output0", "output1"],
    "torch.max(x, 1)": ["output0", "output1"],
}


@pytest.mark.parametrize("returned", RESULTS)
def test_outputs_have_the_names_of_their_places(export: Callable[..., Any], returned: str) -> None:
    found = export(KINDS.replace("RETURNED", returned))
    names = [each["name"] for each in found.json("signature")["outputs"]]
    assert names == RESULTS[returned]
    (x,) = found.examples()
    values = torch.utils._pytree.tree_leaves(found.program().module()(x))
    expected = list(torch.max(x, 1)) if "max" in returned else [x + 1 + i for i in range(len(names))]
    if "z=a" not in returned:
        assert all(torch.equal(one, other) for one, other in zip(values, expected, strict=True))


def test_names_given_replace_those_of_containers(export: Callable[..., Any], refusal: Callable[..., str]) -> None:
    source = KINDS.replace("RETURNED", "Result(a, (b, c))")
    found = export(source, outputs=["x", "y", "z"])
    assert [each["name"] for each in found.json("signature")["outputs"]] == ["x", "y", "z"]


def test_two_outputs_of_one_name(refusal: Callable[..., str]) -> None:
    assert refusal(KINDS.replace("RETURNED", "{'a.b': a, 'a': {'b': b}}")) == (
        "the module returns two outputs 'a.b'; expected their names in the attribute 'outputs'"
    )


def test_an_object_that_no_container_is(refusal: Callable[..., str]) -> None:
    source = KINDS.replace("RETURNED", "{'logits': a, 'cache': [type('Other', (), {})()]}")
    assert refusal(source) == (
        "forward of m/net.py:Net returns a Other in 'cache.0'; expected tensors, numbers, and containers that"
        " torch.utils._pytree.register_pytree_node knows"
    )


def test_a_text(refusal: Callable[..., str]) -> None:
    assert refusal(KINDS.replace("RETURNED", "{'logits': a, 'mode': 'fast'}")).startswith(
        "forward of m/net.py:Net returns a str in 'mode'; expected tensors, numbers, and containers"
    )


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ("torch.fft.rfft(x)", "complex64 in 'output'"),
        ("(x, {'a': torch.stft(x, 2, 1, return_complex=True)})", "complex64 in 'output1.a'"),
        ("x.to(torch.complex128)", "complex128 in 'output'"),
        ("x.to(torch.float8_e5m2)", "float8_e5m2 in 'output'"),
    ],
)
def test_types_that_no_program_returns(result: str, problem: str, refusal: Callable[..., str]) -> None:
    text = refusal(f"class Net(nn.Module):\n    def forward(self, x):\n        return {result}")
    assert text.startswith(f"the module returns {problem}, which programs do not; expected numbers of another type")
    assert text.endswith(": torch.view_as_real, or .abs()") == problem.startswith("complex")


@pytest.mark.parametrize("result", ["x + len(CALLS)", "(x, x)[: len(CALLS)]"])
def test_a_module_that_does_not_repeat_its_results(result: str, refusal: Callable[..., str]) -> None:
    counting = f"""
        CALLS = []

        class Net(nn.Module):
            def forward(self, x):
                CALLS.append(x)
                return {result}
    """
    assert refusal(counting) == (
        "forward of m/net.py:Net returns other values when it is called again with the same inputs; expected results"
        " that the inputs decide"
    )


def test_a_module_that_returns_others_while_it_is_exported(refusal: Callable[..., str]) -> None:
    other = """
        class Net(nn.Module):
            def forward(self, x):
                return x + (1 if torch.compiler.is_exporting() else 0)
    """
    problem = refusal(other)
    assert problem.startswith("the exported program of m/net.py:Net, on ")
    assert problem.endswith(" as the module returns it")
