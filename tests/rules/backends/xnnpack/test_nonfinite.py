"""Programs for XNNPACK have NaN and infinities where eager mode has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.rules.backends.xnnpack.comparison import Form, compared

VALUES = (torch.nan, torch.inf, -torch.inf, -0.0, 0.0, 1.0, -1.0, 3.5, -2.25, 1e4, 88.0, -88.0, 0.5, -0.5, 2.5)
LARGE = (1e30, -1e30)
SIZES = (1, 8, 9, 17, 40)
"""Vectors of XNNPACK's kernels have 4 to 64 elements; the rest is computed apart."""


def cycle(size: int, first: int, dtype: torch.dtype) -> Tensor:
    values = VALUES if dtype == torch.float16 else VALUES + LARGE
    return torch.tensor([values[(place + first) % len(values)] for place in range(size)], dtype=dtype)


UNARY: tuple[Callable[[Tensor], Tensor], ...] = (
    *(torch.abs, torch.ceil, torch.cos, torch.exp, torch.floor, torch.log, torch.neg, torch.rsqrt, torch.sigmoid),
    *(torch.sin, torch.sqrt, torch.tanh, F.elu, F.hardswish, F.hardtanh, F.relu, F.relu6, F.silu, F.softplus),
    lambda x: x.clamp(-1, 2),
    lambda x: x.clamp(min=-1.0),
    lambda x: x.clamp(max=2.0),
    lambda x: F.leaky_relu(x, 0.1),
    lambda x: x**2,
    lambda x: F.softmax(x, -1),
)
BINARY: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    *(torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum),
    lambda x, y: F.relu(x + y),
    lambda x, y: F.relu6(x - y),
    lambda x, y: F.relu(x * y),
)


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(torch.float32, id="float32"),
        pytest.param(torch.float16, id="float16", marks=pytest.mark.exhaustive),
    ],
)
def test_elementwise(dtype: torch.dtype, tmp_path: Path) -> None:
    def forward(m: Any, *given: Tensor) -> list[Tensor]:
        left, right = given[: len(SIZES)], given[len(SIZES) :]
        binary = [function(x, y) for function in BINARY for x, y in zip(left, right, strict=True)]
        return [function(x) for function in UNARY for x in left] + binary

    shifts = ((0, 0), (1, 6), (6, 1))
    calls = [tuple(cycle(size, first, dtype) for first in each for size in SIZES) for each in shifts]
    compared(Form(forward), calls, tmp_path, 2e-3 if dtype == torch.float16 else None)


def spoiled(value: float, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator)
    return torch.where(torch.rand(shape, generator=generator) < 0.03, value, x)


IMAGES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "conv_relu": lambda m, x: F.relu(m.conv(x)),
    "conv_relu6": lambda m, x: F.relu6(m.conv(x)),
    "depthwise": lambda m, x: F.relu6(m.depthwise(x)),
    "wide": lambda m, x: m.wide(x),
    "transposed": lambda m, x: F.relu6(m.transposed(x)),
    "linear": lambda m, x: F.relu6(m.linear(x)),
    "prelu": lambda m, x: m.prelu(x),
    "average": lambda m, x: F.avg_pool2d(x, 2),
    "average_of_padded": lambda m, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "average_of_all": lambda m, x: F.avg_pool2d(x, (8, 9)),
    "average_of_many": lambda m, x: F.avg_pool2d(x, 6),
    "mean": lambda m, x: x.mean((2, 3), keepdim=True),
    "pad": lambda m, x: F.pad(x, (1, 1, 2, 0)),
}
POOLS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "maximum": lambda m, x: F.max_pool2d(x, 2),
    "maximum_of_padded": lambda m, x: F.max_pool2d(x, 3, 2, 1),
    "maximum_with_ceil": lambda m, x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "maximum_with_wide_ceil": lambda m, x: F.max_pool2d(x, (2, 2), (2, 2), ceil_mode=True),
    "maximum_with_dilation": lambda m, x: F.max_pool2d(x, 3, 1, 1, dilation=2),
    "maximum_of_line": lambda m, x: F.max_pool2d(x, (1, 3), (1, 2)),
    "maximum_of_25": lambda m, x: F.max_pool2d(x, 5, 1, 2),
}


def images() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {
        "conv": nn.Conv2d(3, 20, 3, padding=1),
        "depthwise": nn.Conv2d(3, 3, 3, groups=3),
        "wide": nn.Conv2d(3, 3, (1, 5), groups=3),
        "transposed": nn.ConvTranspose2d(3, 5, 3, stride=2),
        "linear": nn.Linear(9, 20),
        "prelu": nn.PReLU(3),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
def test_images(dtype: torch.dtype, tmp_path: Path) -> None:
    forms = [*IMAGES.values(), *(POOLS.values() if dtype == torch.float32 else ())]
    module = Form(lambda m, x: [form(m, x) for form in forms], **images()).to(dtype)
    calls = [(spoiled(value, 1, 3, 8, 9).to(dtype),) for value in (0.0, torch.nan, torch.inf, -torch.inf)]
    made = compared(module, calls, tmp_path, 1e-2 if dtype == torch.float16 else None)
    taken = {"aten.mean.dim", "aten.prelu.default"}
    if dtype == torch.float32:
        taken |= {"aten.convolution.default", "aten.linear.default", "aten.max_pool2d.default"}
    assert taken <= made.nodes("xnnpack").keys()


def test_lossy_float16(tmp_path: Path) -> None:
    def forward(m: Any, x: Tensor) -> Any:
        names = "conv_relu", "linear", "depthwise", "average", "average_of_all"
        return [IMAGES[name](m, x) for name in names] + [POOLS["maximum"](m, x), x.relu()]

    module, x = Form(forward, **images()).half(), spoiled(0.0, 1, 3, 8, 9).half()
    made = compared(module, [(x,)], tmp_path, 1e-2, lossy=["float16"])
    assert not made.nodes("portable")
