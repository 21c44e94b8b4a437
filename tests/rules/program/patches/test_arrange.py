"""Partitions are extracted from programs with assertions about values that many operators compute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class Asserting(nn.Module):
    """Checks a value that is computed from its result by many operators."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        number = (y.long().flatten().cumsum(0)[-1] % 7).clamp(0, 5).item()
        torch._check(number + 1 != 9)
        torch._check(number >= 0)
        torch._check(number * 3 <= 18)
        return y


def test_the_output_is_after_assertions(lower: Callable[..., Any], execute: Callable[..., Any], tmp_path: Path) -> None:
    module, x = Asserting().eval(), torch.rand(2, 4)
    with torch.no_grad():
        made = lower(torch.export.export(module, (x,), strict=False), tmp_path / "made")
        (result,) = execute(made.pte, (x,))
        assert made.nodes("xnnpack")
        assert torch.allclose(result, module(x), atol=1e-6)
