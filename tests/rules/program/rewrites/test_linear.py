"""Linear layers whose number of rows depends on values run as `linear`, and compute eager mode's results."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from executorch.extension.pybindings._C import _load_for_executorch
from torch import Tensor, nn

from tests.portable_program import build_program


class Head(nn.Module):
    """Layers on the selected rows, with a bias and without, and one on all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.all = nn.Linear(6, 5), nn.Linear(5, 3, bias=False), nn.Linear(6, 2)
        self.plain = nn.Parameter(torch.rand(6, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        found = x[x[:, 0] > 0]
        return self.second(self.first(found).relu()), found @ self.plain, self.all(x), self.first(found[:, None])


def test_layers_on_selected_rows_stay_whole(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Head().eval().requires_grad_(False)
    rows = torch.randn(7, 6)
    made = build_program(torch.export.export(module, (rows,)), tmp_path)
    operators = [node["op"] for node in json.loads(made.delegation.read_text())["nodes"]]
    assert [each for each in operators if "linear" in each or "mm" in each] == [
        "aten.linear.default",
        "aten.linear.default",
        "aten.mm.default",
        "aten.addmm.default",
        "aten.linear.default",
    ]
    method = _load_for_executorch(str(made.pte))
    for x in (rows, rows.abs(), -rows.abs()):
        for found, wanted in zip(method.forward([x]), module(x), strict=True):
            assert found.shape == wanted.shape
            torch.testing.assert_close(found, wanted)
