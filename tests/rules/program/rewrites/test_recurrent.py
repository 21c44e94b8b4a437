"""Recurrent nets in programs: which keep their loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.model.steps.exported.composite_shapes import shapes_from_inputs
from modelbuild_rules.program.steps.lowering.rewrites.recurrent import has_recurrent_nets, keep_loops


class Nets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.long = nn.LSTM(3, 2, proj_size=1)
        self.short = nn.GRU(3, 2, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.long(x)[0], self.short(x)[0]


def export(steps: torch.export.Dim | None = None) -> torch.export.ExportedProgram:
    """Return a program with a net of 6 steps, or of a dynamic number, and one of 5."""
    torch.manual_seed(0)
    shapes = ({0: steps},) if steps else None
    with torch.no_grad(), shapes_from_inputs():
        return torch.export.export(Nets().eval(), (torch.rand(6, 5, 3),), dynamic_shapes=shapes, strict=False)


def nets(program: torch.export.ExportedProgram) -> set[str]:
    targets = {str(node.target) for node in program.graph.nodes}
    return {each for each in targets if "lstm" in each or "gru" in each}


@pytest.mark.parametrize(
    ("unrolled", "found"),
    [
        (4, {"modelbuild.lstm.default", "modelbuild.gru.default"}),
        (5, {"modelbuild.lstm.default", "aten.gru.input"}),
        (6, {"aten.lstm.input", "aten.gru.input"}),
    ],
)
def test_a_net_with_more_steps_than_are_unrolled_keeps_its_loop(unrolled: int, found: set[str]) -> None:
    program, x = export(), torch.rand(6, 5, 3)
    kept = keep_loops(program, unrolled)
    assert nets(kept) == found
    torch.testing.assert_close(kept.module()(x), program.module()(x))


def test_a_net_with_a_dynamic_number_of_steps_keeps_its_loop() -> None:
    program = keep_loops(export(torch.export.Dim("steps", min=1, max=50)), 5)
    assert nets(program) == {"modelbuild.lstm.default", "aten.gru.input"}
    for steps in (1, 50):
        x = torch.rand(steps, 5, 3)
        torch.manual_seed(0)
        torch.testing.assert_close(program.module()(x), Nets().eval()(x))


class Resized(nn.Module):
    """A net, and operators that another rewrite replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.GRU(5, 3, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.net(x[None])[0], nn.functional.interpolate(x[:, None], scale_factor=2.0, mode="linear")


def test_a_net_keeps_its_loop_beside_other_rewrites(lower: Callable[..., Any], tmp_path: Path) -> None:
    sizes = ({0: torch.export.Dim("steps", min=2, max=9)},)
    with torch.no_grad(), shapes_from_inputs():
        program = torch.export.export(Resized().eval(), (torch.rand(2, 5),), dynamic_shapes=sizes, strict=False)
    assert "modelbuild.gru.default" in lower(program, tmp_path / "made").nodes("portable")


def test_a_program_without_recurrent_nets() -> None:
    assert has_recurrent_nets(export())
    assert not has_recurrent_nets(torch.export.export(nn.ReLU(), (torch.rand(2),)))
