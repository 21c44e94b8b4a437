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


def check(made: Quantized, tolerance: float, *given: torch.Tensor) -> None:
    given = given or (torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1,)
    from modelbuild_rules.model.steps.exported.program import load_program

    before = load_program(made.before.folder / "program", made.before.folder / "weights").module()(*given)
    after = made.program().module()(*given)
    for one, other in zip(_tensors(before), _tensors(after), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.float(), other.float(), rtol=0, atol=tolerance)


def _tensors(found: Any) -> list[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        return [found]
    return list(found.values()) if isinstance(found, dict) else list(found)


NORMALIZED = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)
    def forward(self, x):
        y = self.first(x) + x
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.last(y)
"""
ROTATED = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 4)
        self.register_buffer("speeds", torch.tensor([[1.0, 0.9, 0.7, 0.3]]))
    def forward(self, x):
        angles = torch.matmul(torch.arange(1900, 1908)[:, None].float(), self.speeds)
        return self.last(x * angles.cos())
"""
MASKED = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.register_buffer("nothing", torch.full((8, 8), torch.finfo(torch.float32).min))
    def forward(self, x, kept):
        y = self.first(x)[None]
        y = y + 0 * nn.functional.scaled_dot_product_attention(y, y, y, self.nothing)
        mask = torch.where(kept[None, None] > 0, 0.0, torch.finfo(torch.float32).min)
        return nn.functional.scaled_dot_product_attention(y, y, y, mask)[0]
"""
ROWS = {"name": "x", "shape": [8, 8], "dtype": "float32", "range": [-1, 1]}
X = torch.linspace(-2, 2, 64).view(8, 8)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_squares_of_large_values_stay_in_float32(quantize: Callable[..., Quantized], dtype: str) -> None:
    made = quantize(NORMALIZED, half(dtype=dtype), inputs=[ROWS])
    assert types(made, "aten.linear.default") == [dtype, dtype]
    for operator in ("aten.pow.Tensor_Scalar", "aten.mean.dim", "aten.rsqrt.default"):
        assert types(made, operator) == ["float32"]
    check(made, 0.01 if dtype == "float16" else 0.05, X * 1000)


def test_angles_of_positions_are_computed_in_float32(quantize: Callable[..., Quantized]) -> None:
    made = quantize(ROTATED, half(), inputs=[{**ROWS, "shape": [8, 4]}])
    assert types(made, "aten.matmul.default") == ["float32"]
    assert types(made, "aten.linear.default") == ["float16"]
    check(made, 5e-3, X[:, :4])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rows_of_a_mask_that_hide_everything_are_finite(quantize: Callable[..., Quantized], dtype: str) -> None:
    inputs = [ROWS, {"name": "kept", "shape": [8, 8], "dtype": "int64", "range": [0, 1]}]
    made = quantize(MASKED, half(dtype=dtype), inputs=inputs)
    assert types(made, "aten.scaled_dot_product_attention.default") == [dtype, dtype]
    kept = torch.ones(8, 8, dtype=torch.int64)
    check(made, 2e-3 if dtype == "float16" else 2e-2, X, kept.tril())
    assert torch.isfinite(made.program().module()(X, kept * 0)).all()


def test_pixels_of_a_camera_are_convolved_in_half_precision(quantize: Callable[..., Quantized]) -> None:
    camera = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
    def forward(self, x):
        return self.conv(x.float() / 255)
"""
    inputs = [{"name": "x", "shape": [1, 3, 8, 8], "dtype": "uint8", "range": [0, 255]}]
    made = quantize(camera, half(), inputs=inputs)
    assert types(made, "aten.conv2d.default") == ["float16"]
    check(made, 2e-3, torch.arange(192, dtype=torch.uint8).view(1, 3, 8, 8))


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
