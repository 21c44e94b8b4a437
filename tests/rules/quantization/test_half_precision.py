"""Half precision: all but some submodules of a model, alone and with other quantizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.rules.quantization.conftest import Quantized, table

NET = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.mix, self.head = nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(1))
    def forward(self, x):
        self.calls.add_(1)
        low, high = self.body(x).mean((2, 3)).split(4, -1)
        y = self.mix(torch.cat((high, low), -1))
        return {"y": self.head(y).softmax(-1), "best": y.argmax(-1), "calls": self.calls * 2}
"""
INPUTS = [{"name": "x", "shape": [2, 3, 8, 8], "dtype": "float32", "range": [-1, 1]}]


def half(**attributes: Any) -> dict[str, Any]:
    given = {"dtype": "float16", "modules": [], "exclude": []} | attributes
    return {"kind": "half", "quantizing": "modelbuild_rules.quantization.steps.half", "attributes": given}


def types(made: Quantized, operator: str) -> list[str]:
    """Return the types of an operator's results, in order."""
    nodes = [node for node in made.program().graph.nodes if str(node.target) == operator]
    return [str(node.meta["val"].dtype).removeprefix("torch.") for node in nodes]


def check(made: Quantized, tolerance: float) -> None:
    x = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
    from modelbuild_rules.model.steps.exported.program import load_program

    before = load_program(made.before.folder / "program", made.before.folder / "weights").module()(x)
    after = made.program().module()(x)
    for one, other in zip(_tensors(before), _tensors(after), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.float(), other.float(), rtol=0, atol=tolerance)


def _tensors(found: Any) -> list[torch.Tensor]:
    return list(found.values()) if isinstance(found, dict) else list(found)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_all_but_a_submodule(quantize: Callable[..., Quantized], dtype: str) -> None:
    made = quantize(NET, half(dtype=dtype, exclude=["head"]), inputs=INPUTS)
    assert types(made, "aten.conv2d.default") == [dtype]
    assert types(made, "aten.linear.default") == [dtype, "float32"]
    state = {name: str(value.dtype).removeprefix("torch.") for name, value in made.program().state_dict.items()}
    assert (state["body.0.weight"], state["head.weight"], state["calls"]) == (dtype, "float32", "float32")
    check(made, 2e-3 if dtype == "float16" else 2e-2)


def test_one_submodule(quantize: Callable[..., Quantized]) -> None:
    made = quantize(NET, half(modules=["head"]), inputs=INPUTS)
    assert types(made, "aten.linear.default") == ["float32", "float16"]
    assert types(made, "aten.conv2d.default") == ["float32"]
    check(made, 2e-3)


def test_other_quantizers_take_the_rest(quantize: Callable[..., Quantized]) -> None:
    samples = [{"x": np.random.default_rng(number).uniform(-1, 1, (2, 3, 8, 8)).astype("f4")} for number in range(3)]
    made = quantize(
        NET, half(modules=["head"]), table(operators=["aten.conv2d.default"]), samples=samples, inputs=INPUTS
    )
    assert types(made, "aten.linear.default") == ["float32", "float16"]
    assert any(each.startswith("quantized_decomposed.") for each in made.operators())
    check(made, 2e-2)
