"""The export step: numbers that modules keep in buffers, on which sizes depend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

SOURCE = """
class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("stride", torch.tensor(4), persistent=PERSISTENT)

    def forward(self, x):
        CHANGE
        frames = torch.ceil(x.shape[-1] / self.stride).to(torch.int64)
        missing = frames * self.stride - x.shape[-1]
        return nn.functional.pad(x, (0, missing)) if missing > 0 else x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.padded = Padded()

    def forward(self, x):
        return self.padded(x) * 2
"""


def source(persistent: bool = False, change: str = "pass") -> str:
    return SOURCE.replace("PERSISTENT", str(persistent)).replace("CHANGE", change)


def test_a_number_that_is_not_changed_is_a_constant(export: Callable[..., Any]) -> None:
    found = export(source())
    (x,) = found.examples()
    expected = torch.nn.functional.pad(x, (0, -x.shape[-1] % 4)) * 2
    assert torch.equal(found.program().module()(x), expected)


@pytest.mark.parametrize(
    ("persistent", "change"),
    [(True, "pass"), (False, "self.stride.add_(1)"), (False, "self.stride = self.stride + 1")],
    ids=["of checkpoints", "changed", "replaced"],
)
def test_another_number_depends_on_values(refusal: Callable[..., str], persistent: bool, change: str) -> None:
    assert "depends on values that are known only when the program runs" in refusal(source(persistent, change))
