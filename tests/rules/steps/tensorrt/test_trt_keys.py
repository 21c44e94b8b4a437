"""What an engine's key is made of is its partition: models that differ anywhere in it never share an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn


class Small(nn.Module):
    """One partition; each of its parts can be another."""

    def __init__(self, slope: float = 0.1, bias: float = 0.5, swap: bool = False, width: int = 4) -> None:
        super().__init__()
        self.register_buffer("bias", torch.full((width,), bias))
        self.slope = slope
        self.swap = swap

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.leaky_relu(x + self.bias, self.slope)
        return x - y if self.swap else y - x


X = torch.ones(2, 4)
SPLIT = {"torch_executed_ops": ["aten.erf.default"]}
OTHERS: Mapping[str, tuple[nn.Module, torch.Tensor]] = {
    "argument": (Small(slope=0.2), X),
    "edge": (Small(swap=True), X),
    "constant": (Small(bias=0.25), X),
    "shape": (Small(), torch.ones(3, 4)),
    "dtype": (Small().half(), X.half()),
}


@pytest.mark.parametrize("difference", OTHERS)
def test_near_equals_never_share(partition: Callable[..., Any], tmp_path: Path, difference: str) -> None:
    base = partition(Small(), (X,), tmp_path / "base")
    module, x = OTHERS[difference]
    other = partition(module, (x,), tmp_path / "other")
    assert [len(base.plan), len(other.plan)] == [1, 1]
    assert base.part() != other.part()


def test_the_same_model_is_the_same_partition(partition: Callable[..., Any], tmp_path: Path) -> None:
    class Renamed(Small):
        """Equal but for names."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("other", self.bias.clone())
            del self.bias

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            moved = given + self.other
            return torch.nn.functional.leaky_relu(moved, self.slope) - given

    one = partition(Small(), (X,), tmp_path / "one")
    other = partition(Renamed(), (X,), tmp_path / "other")
    assert one.part() == other.part()


def test_another_head_is_another_engine_and_none_else(partition: Callable[..., Any], tmp_path: Path) -> None:
    class Headed(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.body = nn.Linear(4, 4)
            self.head = nn.Linear(4, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.erf(torch.relu(self.body(x))))

    three, five = (partition(Headed(width), (X,), tmp_path / str(width), SPLIT) for width in (3, 5))
    assert [len(three.plan), len(five.plan)] == [2, 2]
    assert three.part("p0") == five.part("p0")
    assert three.part("p1") != five.part("p1")


def test_dynamic_sizes_and_profiles_are_in_it(partition: Callable[..., Any], tmp_path: Path) -> None:
    def made(name: str, high: int, **table: Any) -> dict[str, bytes]:
        batch = torch.export.Dim("batch", min=1, max=high)
        return partition(Small(), (X,), tmp_path / name, table, dynamic=({0: batch},)).part()

    profile = {"x": {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}}
    parts = [made("8", 8), made("9", 9), made("profile", 8, optimization_profiles=[profile])]
    assert len({str(part) for part in parts}) == 3
