"""Programs have the same results in whichever order of dimensions XNNPACK computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import ExportedProgram

from tests.rules.backends.xnnpack.comparison import Form, compared, numbers
from tests.rules.program.conftest import _quantized

BEHIND: tuple[Callable[[Any, Tensor], Tensor], ...] = (
    lambda m, x: x.softmax(-1),
    lambda m, x: x[:, 1:3],
    lambda m, x: torch.ops.aten.slice.Tensor(x, -1, 2, 5),
    lambda m, x: torch.cat([x, x * 2, x + 1], -2),
    lambda m, x: x.permute(0, 2, 3, 1),
    lambda m, x: F.pad(x, (1, 2, 3, 0)),
    lambda m, x: x.reshape(2, -1),
    lambda m, x: x + m.channels,
    lambda m, x: m.channels[0] - x,
    lambda m, x: x * m.columns,
    lambda m, x: m.norm(x.sigmoid()),
    lambda m, x: m.linear(x),
    lambda m, x: x * x.mean((2, 3), keepdim=True),
    lambda m, x: F.max_pool2d(x, 3, 2, 1),
)


def test_operators_between_convolutions(tmp_path: Path) -> None:
    torch.manual_seed(0)

    def forward(m: Any, x: Tensor) -> list[Tensor]:
        image = m.conv(x)
        found = [function(m, image) for function in BEHIND]
        last = [F.conv2d(F.relu(each), torch.ones(2, each.shape[1], 1, 1)) for each in found if each.dim() == 4]
        return [image, *found, *last]

    parts = {
        "conv": nn.Conv2d(3, 4, 3, padding=1),
        "channels": nn.Parameter(numbers(1, 4, 1, 1)),
        "columns": nn.Parameter(numbers(9)),
        "norm": nn.BatchNorm2d(4),
        "linear": nn.Linear(9, 5),
    }
    compared(Form(forward, **parts), [(numbers(2, 3, 7, 9),)], tmp_path)


def quantized(function: Callable[..., Any], dynamic: bool) -> tuple[ExportedProgram, tuple[Tensor]]:
    torch.manual_seed(0)
    x = numbers(1, 4, 16, 16)
    parts = {"conv": nn.Conv2d(4, 4, 3, padding=1), "point": nn.Conv2d(4, 6, 1), "bare": nn.Conv2d(4, 4, 1, bias=False)}
    parts |= {"other": nn.Conv2d(4, 4, 3, padding=1)}
    layers = {"linear": nn.Linear(16, 16), "plain": nn.Linear(16, 16, bias=False), "few": nn.Linear(4, 5)}
    module = Form(function, **parts, **layers).eval()
    return torch.export.export(_quantized(module, (x,), dynamic), (x,)), (x,)


DYNAMIC: dict[str, Callable[[Any, Tensor], Any]] = {
    "linear": lambda m, x: m.linear(m.conv(x)),
    "without_bias": lambda m, x: m.plain(m.bare(x)),
    "gelu": lambda m, x: m.linear(F.gelu(m.conv(x))),
    "permuted": lambda m, x: m.few(m.conv(x).permute(0, 2, 3, 1)),
    "linear_before": lambda m, x: m.conv(m.linear(x)),
    "shared_by_convolutions": lambda m, x: (m.conv(x), m.point(x)),
    "shared_by_both": lambda m, x: (m.conv(x), m.linear(x), x + 1),
    "one_layer_twice": lambda m, x: m.conv(m.conv(x)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("form", DYNAMIC)
def test_dynamic_ranges(form: str, tmp_path: Path) -> None:
    program, inputs = quantized(DYNAMIC[form], dynamic=True)
    made = compared(program, [inputs], tmp_path, 0.1)
    assert not made.nodes("portable")


STATIC: dict[str, Callable[[Any, Tensor], Any]] = {
    "softplus": lambda m, x: F.softplus(m.conv(x)),
    "where": lambda m, x: torch.where((y := m.conv(x)) > 0, y, 0.5 * y),
    "where_tanh": lambda m, x: torch.where((y := m.conv(x)) > 0, y.tanh(), y),
    "results": lambda m, x: ((y := F.relu(m.conv(x))), y.tanh(), y.cumsum(1), m.other(y)),
    "exp_before": lambda m, x: m.conv(x.exp()),
    "softmax": lambda m, x: m.conv(x).softmax(-1),
}


@pytest.mark.sampled
@pytest.mark.parametrize("form", STATIC)
def test_static_ranges(form: str, tmp_path: Path) -> None:
    program, inputs = quantized(STATIC[form], dynamic=False)
    compared(program, [inputs], tmp_path, 0.2)
