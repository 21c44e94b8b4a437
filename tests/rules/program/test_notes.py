"""Notes of the partition step, and the exported nodes that lowered ones are made from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from modelbuild_rules.backend_api.steps.partitioning import Partitioning
from modelbuild_rules.operators.steps import lowered_operators
from modelbuild_rules.program.steps.lowering.delegation import Fact
from modelbuild_rules.program.steps.lowering.notes import notes

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import Refusal


class Cells(nn.Module):
    """Calls one cell for each step, and another one once."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.RNNCell(3, 3)
        self.steps = nn.RNNCell(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = self.first(x[0])
        for step in range(8):
            state = self.steps(x[step], state)
        return state


def test_a_loop_of_cells_is_noted_and_a_single_cell_is_not(lower: Callable[..., Any], tmp_path: Path) -> None:
    exported = torch.export.export(Cells().eval(), (torch.rand(8, 1, 3),), strict=False)
    made = lower(exported, tmp_path / "made")
    assert (made.folder / "notes.txt").read_text() == (
        "8 calls of aten.rnn_tanh_cell.default are unrolled to 32 nodes (the first is node aten_linear_default_2 from"
        " rnn_tanh_cell_1); nn.RNN keeps the loop, if no input depends on a result\n"
    )
    origins = {node["origin"] for node in json.loads((made.folder / "report.json").read_text())}
    assert origins <= {node.name for node in exported.graph.nodes}


def test_loops_on_the_cpu_are_noted_in_programs_for_a_gpu() -> None:
    class Gpu(Partitioning):
        on_gpu = True

    (lstm,) = [name for name in lowered_operators.LOOPS if "lstm" in name]
    facts = [Fact(f"loop_{number}", lstm, None, origin) for number, origin in enumerate(["lstm", "lstm", "lstm_1"])]
    facts += [Fact("taken", lstm, None, "lstm_2", tag=(0, "t")), Fact("add", "aten.add.Tensor", None, "add")]
    program = torch.export.export(nn.ReLU(), (torch.ones(1),))
    assert notes(program, facts, [Gpu()]) == [
        "loops of recurrent nets run on the CPU (the first is node loop_0 from lstm), because no backend on the GPU has"
        " loops; their inputs and results are copied between GPU and CPU"
    ]
    assert notes(program, facts, [Partitioning()]) == notes(program, facts[3:], [Gpu()]) == []


def test_operators_left_to_the_cpu_are_noted() -> None:
    """In a program for a GPU all that compute, in another one convolutions and products."""

    class Gpu(Partitioning):
        on_gpu = True

    def left(*operators: str) -> list[Fact]:
        refusal: Refusal = {"backend": "tensorrt", "why": "no converter"}
        return [Fact(f"node_{n}", op, None, refused=[refusal]) for n, op in enumerate(operators)]

    program = torch.export.export(nn.ReLU(), (torch.ones(1),))
    light = left("aten.max.dim", "sym_size.int", "operator.ge", "_assert_scalar.default", "aten.median.dim")
    taken = [Fact("taken", "aten.mm.default", None, tag=(0, "t")), Fact("own", "aten.mm.default", None)]
    assert notes(program, [*light, *taken], [Gpu()]) == [
        "2 operators left to portable kernels on the CPU: aten.max.dim (1), aten.median.dim (1); `modelbuild check`"
        " prints the reasons"
    ]
    assert notes(program, [*light, *taken], [Partitioning()]) == []
    heavy = left(*["aten.convolution.default"] * 2, "aten.mm.default", "aten.a.b", "aten.c.d")
    (note,) = notes(program, heavy, [Partitioning()])
    assert note.startswith(
        "5 operators, among them 2 convolutions and 1 product, left to portable kernels on the CPU:"
        " aten.convolution.default (2), aten.mm.default (1), aten.a.b (1), ...;"
    )
