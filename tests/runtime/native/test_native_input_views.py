"""Programs that look at an input through views, which have no instructions: each call computes with its own values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import modelbuild_runtime
from tests.portable_program import build_program
from tests.rules.program.conftest import run_steps

CALLS = 5
VIEWS: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "itself": ((2, 6), lambda x: x),
    "view": ((2, 6), lambda x: x.view(3, 4)),
    "view of all": ((2, 6), lambda x: x.view(-1)),
    "view of unit dimensions": ((6,), lambda x: x.view(1, 1, -1)),
    "view of a view": ((2, 6), lambda x: x.view(12).view(4, 3)),
    "flatten": ((2, 3, 4), lambda x: x.flatten(1)),
    "unflatten": ((2, 6), lambda x: x.unflatten(1, (2, 3))),
    "reshape": ((2, 6), lambda x: x.reshape(4, 3)),
    "unsqueeze": ((2, 6), lambda x: x.unsqueeze(1)),
    "squeeze": ((2, 1, 6), lambda x: x.squeeze(1)),
    "squeeze of all": ((1, 2, 1, 6), lambda x: x.squeeze()),
    "permute of a unit dimension": ((2, 1, 6), lambda x: x.permute(1, 0, 2)),
    "permute": ((2, 3, 4), lambda x: x.permute(2, 0, 1)),
    "transpose of a unit dimension": ((1, 6), lambda x: x.t()),
    "movedim": ((1, 2, 6), lambda x: x.movedim(0, 2)),
    "slice of all": ((2, 6), lambda x: x[:, :]),
    "slice": ((4, 6), lambda x: x[1:3]),
    "narrow": ((4, 6), lambda x: x.narrow(0, 2, 2)),
    "select": ((2, 6), lambda x: x.select(0, 1)),
    "select of a unit dimension": ((1, 6), lambda x: x[0]),
    "unbind": ((2, 6), lambda x: x.unbind(0)[1]),
    "split": ((4, 6), lambda x: x.split(2)[1]),
    "chunk": ((4, 6), lambda x: x.chunk(2)[0]),
    "expand": ((1, 6), lambda x: x.expand(2, 6)),
    "expand to its shape": ((2, 6), lambda x: x.expand(2, 6)),
    "diagonal": ((3, 3), lambda x: x.diagonal()),
    "unfold": ((8,), lambda x: x.unfold(0, 4, 2)),
    "as_strided": ((2, 6), lambda x: x.as_strided((3, 4), (4, 1))),
    "alias": ((2, 6), torch.ops.aten.alias),
    "detach": ((2, 6), lambda x: x.detach()),
    "view_as": ((2, 6), lambda x: x.view_as(torch.zeros(12))),
    "to its type": ((2, 6), lambda x: x.to(torch.float32)),
    "contiguous": ((2, 6), lambda x: x.contiguous()),
    "dropout": ((2, 6), lambda x: torch.nn.functional.dropout(x, training=False)),
}


class Looks(torch.nn.Module):
    """Portable kernels and an operator that XNNPACK takes behind a view; a second input keeps memory in use."""

    def __init__(self, view: Callable[[Tensor], Tensor], size: int) -> None:
        super().__init__()
        self.view = view
        self.layer = torch.nn.Linear(size, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        seen = self.view(x)
        return torch.cumsum(seen, -1), torch.sin(y * 2) + y, seen.logical_not(), self.layer(seen)


@pytest.mark.parametrize("stack", ["portable", pytest.param("xnnpack", marks=pytest.mark.exhaustive)])
def test_each_call_computes_with_its_own_inputs(tmp_path: Path, stack: str) -> None:
    torch.manual_seed(0)
    wrong = {}
    for number, (kind, (shape, view)) in enumerate(VIEWS.items()):
        model = Looks(view, view(torch.zeros(shape)).shape[-1]).eval()
        exported = torch.export.export(model, (torch.zeros(shape), torch.zeros(5)))
        folder = tmp_path / str(number)
        folder.mkdir()
        lowered: Any = build_program(exported, folder) if stack == "portable" else run_steps(exported, folder)
        program = modelbuild_runtime.load(lowered.pte)
        for call in range(CALLS):
            given = [torch.randn(each).round(decimals=1) * call for each in (shape, (5,))]
            found = program.run([each.numpy() for each in given])
            for have, want in zip(found.values(), model(*given), strict=True):
                if not np.allclose(have, want.detach().numpy(), rtol=1e-4, atol=1e-4):
                    wrong.setdefault(kind, call)
    assert wrong == {}
