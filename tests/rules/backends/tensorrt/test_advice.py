"""TensorRT refuses each operator with advice, and takes what the advice says instead, with the same result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.backends.tensorrt.steps.partitioning import ADVICE
from tests.rules.backends.tensorrt.conftest import partition

BOUNDARIES = torch.tensor([-0.5, 0.0, 0.5])
CASES: dict[str, tuple[Callable[[Tensor], Any], Callable[[Tensor], Any]]] = {
    "aten.bucketize.Tensor": (
        lambda x: torch.bucketize(x, BOUNDARIES),
        lambda x: (x[..., None] > BOUNDARIES).sum(-1),
    ),
    "aten.max.dim": (lambda x: tuple(x.max(1)), lambda x: (x.amax(1), x.argmax(1))),
    "aten.min.dim": (lambda x: tuple(x.min(1)), lambda x: (x.amin(1), x.argmin(1))),
    "aten.median.dim": (lambda x: x.median(1).values, lambda x: x.sort(1).values[:, 2]),
    "aten.nonzero.default": (
        lambda x: x[(x[:, 0] > -9).nonzero()[:, 0]],
        lambda x: x[torch.topk((x[:, 0] > -9).int(), 4).indices.sort().values],
    ),
}


class Module(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(torch.relu(x) - torch.relu(-x))


def test_all_advice_has_a_case() -> None:
    assert set(CASES) == set(ADVICE)


@pytest.mark.parametrize("op", CASES)
def test_the_advice_avoids_the_break(op: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    before, after = CASES[op]
    torch.testing.assert_close(before(x), after(x))
    left = partition(Module(before), (x,), tmp_path / "before").report
    assert left[op]["refused"]
    taken = partition(Module(after), (x,), tmp_path / "after").report
    assert [each for each, fact in taken.items() if fact["backend"] != "tensorrt"] == []
