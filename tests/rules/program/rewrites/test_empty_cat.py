"""Results of cat and stack without elements have eager mode's shapes in ExecuTorch's own runtime."""

from __future__ import annotations

from pathlib import Path

import torch
from executorch.extension.pybindings._portable_lib import _load_for_executorch
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
