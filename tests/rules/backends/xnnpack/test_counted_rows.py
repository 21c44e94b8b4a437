"""Layers of rows whose number depends on values are in XNNPACK's partitions, and may have no row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.rules.backends.xnnpack.comparison import compared, numbers


class Heads(nn.Module):
    """Two heads on the rows whose first number is positive."""

    def __init__(self, one: nn.Module, other: nn.Module) -> None:
        super().__init__()
        self.one, self.other = one, other

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = x[x.flatten(1)[:, 0] > 0]
        return self.one(rows), self.other(rows)


HEADS: dict[str, tuple[Any, ...]] = {
    "linear": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 6, 16), nn.ReLU(), nn.Linear(16, 4), nn.Sigmoid()),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 6, 7, bias=False)),
    ),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 5, 2, 2), nn.ReLU6()),
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.GELU(), nn.Conv2d(4, 3, 1, bias=False)),
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_results(name: str, tmp_path: Path) -> None:
    """Calls of 0 to 10 rows, growing and shrinking, some with a NaN."""
    torch.manual_seed(0)
    x = numbers(10, 3, 8, 6)
    x[:, 0, 0, 0] = torch.tensor([1.0, -1, 1, 1, -1, -1, -1, 1, -1, 1])
    spoiled = x.clone()
    spoiled[2, 1, 3, 3], spoiled[7, 2, 0, 0] = torch.nan, torch.inf
    calls = [(x,), (-x.abs(),), (x.abs(),), (spoiled,), (-x.abs(),), (x,)]
    made = compared(Heads(*(head() for head in HEADS[name])), calls, tmp_path, 1e-5)
    layers = {f"aten.{name}.default" for name in ("addmm", "convolution", "linear", "mm", "relu", "sigmoid")}
    assert layers.isdisjoint(made.nodes("portable"))


def test_sizes_that_are_never_zero_need_no_other_row(tmp_path: Path) -> None:
    class Columns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv1d(3, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.layer(x[:, :, x[0, 0] > 0])
            return made

    x = numbers(2, 3, 12)
    made = compared(Columns(), [(x,), (x.abs(),), (x.abs() * (torch.arange(12) == 5),)], tmp_path, 1e-5)
    assert {"aten.cat.default", "aten.convolution.default"}.isdisjoint(made.nodes("portable"))


FORMS: dict[str, Any] = {
    "shapes": lambda m, x: m.layer(x).view(-1, 6, 2, 3, 3).transpose(1, 2).reshape(-1, 12, 3, 3) + 1,
    "rows of matrices": lambda m, x: torch.bmm((x * 2).flatten(2), x.flatten(2).mT),
    "batch": lambda m, x: torch.cat([x * 2, x + 1])[:, 1:] * 3,
    "means": lambda m, x: (F.avg_pool2d(m.layer(x), 2), m.layer(x).mean((2, 3)), F.adaptive_avg_pool2d(x, 1) * 2),
    "residual": lambda m, x: (m.layer(x)[:, :3] + x).relu() * x[:1],
    "softmax": lambda m, x: (m.layer(x).flatten(1).softmax(1), (x * 2).flatten(1).softmax(0)),
    "padding": lambda m, x: m.layer(F.pad(x * 2, (1, 1, 1, 1))),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.exhaustive] * (n != "shapes")) for n in FORMS])
def test_operators_on_rows_that_are_never_none(name: str, tmp_path: Path) -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(3, 12, 3, padding=1)

        def forward(self, x: Tensor) -> Any:
            rows = x[x.flatten(1)[:, 0] > 0]
            return FORMS[name](self, torch.cat([rows, torch.ones_like(x[:1])]))

    torch.manual_seed(0)
    x = numbers(8, 3, 3, 3)
    calls = [(x,), (-x.abs(),), (x.abs(),), (x,), (-x.abs(),)]
    compared(Rows(), calls, tmp_path, 1e-4)
