"""Results of cat and stack without elements have eager mode's shapes in ExecuTorch's own runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.extension.pybindings._C import _load_for_executorch
from torch import Tensor, nn

from tests.portable_program import build_program


class Selected(nn.Module):
    """Joins the rows of boxes whose first value is positive, along each dimension and after other operators."""

    def forward(self, boxes: Tensor) -> tuple[Tensor, ...]:
        found = boxes[boxes[:, 0] > 0]
        left, top, right, bottom = found.unbind(1)
        whole = torch.stack([left, top, right * 2, bottom], 1)
        return whole, torch.cat([found, whole], 1), torch.cat([found, whole]), whole + found


def test_joined_rows_have_the_shapes_of_eager_mode(tmp_path: Path) -> None:
    rows = torch.tensor([[1.0, 2, 3, 4], [-1, 5, 6, 7], [2, 8, 9, 1]])
    program = build_program(torch.export.export(Selected(), (rows,), strict=False), tmp_path).pte
    method = _load_for_executorch(str(program))
    for boxes in (rows, -rows, -rows.abs()):
        for found, wanted in zip(method.forward([boxes]), Selected()(boxes), strict=True):
            assert found.shape == wanted.shape
            assert torch.equal(found, wanted)


class Grown(nn.Module):
    """Joins rows to an empty vector, as the cache of a model of transformers does at its first step."""

    def __init__(self) -> None:
        super().__init__()
        self.row = nn.Parameter(torch.ones(1, 2, 1, 3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([torch.tensor([]), x, self.row], -2), torch.cat([torch.tensor([]), x], -1)


class Alone(nn.Module):
    """A program whose only constant has no elements."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (torch.cat([torch.tensor([]), x], -1),)


@pytest.mark.parametrize("model", [Grown, Alone])
def test_a_vector_without_elements_counts_for_nothing(model: type[nn.Module], tmp_path: Path) -> None:
    rows = torch.arange(12.0).view(1, 2, 2, 3)
    module = model().requires_grad_(False)
    method = _load_for_executorch(str(build_program(torch.export.export(module, (rows,)), tmp_path).pte))
    for found, wanted in zip(method.forward([rows]), module(rows), strict=True):
        assert torch.equal(found, wanted)
