"""Facts about a lowered program that its author may want to change, in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch.export import ExportedProgram

from modelbuild_rules.kernels.steps import recurrent_operators
from modelbuild_rules.program.steps.lowering.delegation import Fact
from modelbuild_rules.program.steps.lowering.node_names import named
from modelbuild_rules.program.steps.lowering.partitioning import Partitioning

aten = torch.ops.aten

_CELLS = {
    aten.lstm_cell.default: "nn.LSTM",
    aten.gru_cell.default: "nn.GRU",
    aten.rnn_tanh_cell.default: "nn.RNN",
    aten.rnn_relu_cell.default: "nn.RNN",
}
"""Operators that compute one step, and the nets that compute all."""

_LOOP = 8
"""The least number of calls of a cell that a note is written about."""


def notes(program: ExportedProgram, facts: Sequence[Fact], backends: Iterable[Partitioning]) -> list[str]:
    """Return the notes on an exported program and the delegation of its nodes."""
    on_cpu = _loops_on_cpu(facts) if any(backend.on_gpu for backend in backends) else ()
    return [*_unrolled_cells(program, facts), *on_cpu]


def _unrolled_cells(program: ExportedProgram, facts: Sequence[Fact]) -> Iterator[str]:
    calls: dict[tuple[object, object], set[str]] = {}
    for node in program.graph.nodes:
        if node.target in _CELLS:
            calls.setdefault((node.target, node.args[2]), set()).add(node.name)
    for (cell, _), names in calls.items():
        made = [fact for fact in facts if fact.origin in names]
        if len(names) >= _LOOP and made:
            yield (
                f"{len(names)} calls of {cell} are unrolled to {len(made)} nodes (the first is"
                f" {named(made[0].name, made[0].origin)}); {_CELLS[cell]} keeps the loop, if no input depends on a"
                " result"
            )


def _loops_on_cpu(facts: Sequence[Fact]) -> Iterator[str]:
    """Yield a note for each recurrent net in a program for a GPU."""
    nets: dict[str | None, list[Fact]] = {}
    for fact in facts:
        if fact.tag is None and fact.op in recurrent_operators.NAMES:
            nets.setdefault(fact.origin, []).append(fact)
    for loops in nets.values():
        count = f"{len(loops)} loops of a recurrent net run" if len(loops) > 1 else "the loop of a recurrent net runs"
        yield (
            f"{count} on the CPU ({named(loops[0].name, loops[0].origin)}), because no backend on the GPU has loops;"
            " its inputs and results are copied between GPU and CPU"
        )
