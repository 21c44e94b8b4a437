"""Facts about a lowered program that its author may want to change, one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch.export import ExportedProgram

from modelbuild_rules.backend_api.steps.partitioning import Partitioning
from modelbuild_rules.model.steps.exported.random_numbers import random_nodes, trains
from modelbuild_rules.node_references import node_reference
from modelbuild_rules.operators.steps import lowered_operators
from modelbuild_rules.program.steps.lowering.delegation import Fact
from modelbuild_rules.wording import count

aten = torch.ops.aten

_CELLS = {
    aten.lstm_cell.default: "nn.LSTM",
    aten.gru_cell.default: "nn.GRU",
    aten.rnn_tanh_cell.default: "nn.RNN",
    aten.rnn_relu_cell.default: "nn.RNN",
}
"""Operators that compute one step, and the nets that compute all steps."""

_PRODUCTS = {
    "aten.convolution.default": "convolution",
    "aten.addmm.default": "product",
    "aten.bmm.default": "product",
    "aten.linear.default": "product",
    "aten.mm.default": "product",
}
"""Operators that take most of the time of a network."""

_NAMED = 3
"""The number of operators that a note names."""

_LOOP = 8
"""The minimum number of calls of a cell for a note."""


def notes(program: ExportedProgram, facts: Sequence[Fact], backends: Iterable[Partitioning]) -> list[str]:
    """Return the notes on an exported program and the delegation of its nodes."""
    on_gpu = any(backend.on_gpu for backend in backends)
    loops = _loops_on_cpu(facts) if on_gpu else ()
    return [*_unrolled_cells(program, facts), *loops, *_left(facts, on_gpu), *_random(program)]


def _left(facts: Sequence[Fact], on_gpu: bool) -> Iterator[str]:
    """Yield a note on operators outside partitions: in a program for a GPU, or if they are convolutions or products."""
    left = Counter(fact.op for fact in facts if fact.tag is None and fact.refused and _computes(fact.op))
    heavy = Counter(_PRODUCTS[op] for op in left.elements() if op in _PRODUCTS)
    if not left or not (on_gpu or heavy):
        return
    named = ", ".join(f"{op} ({number})" for op, number in left.most_common(_NAMED))
    among = " and ".join(count(number, noun) for noun, number in heavy.items())
    yield (
        f"{count(left.total(), 'operator')}{f', among them {among},' if among else ''} left to portable kernels on the"
        f" CPU: {named}{', ...' if len(left) > _NAMED else ''}; `modelbuild check` prints the reasons"
    )


def _computes(op: str) -> bool:
    """Return whether an operator computes a tensor: it neither computes sizes nor checks values."""
    return "." in op and not op.startswith(("operator.", "sym_", "_assert", "aten._assert", "math."))


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
                f" {node_reference(made[0].name, made[0].origin)}); {_CELLS[cell]} keeps the loop, if no input depends"
                " on a result"
            )


def _random(program: ExportedProgram) -> Iterator[str]:
    """Yield a note if a program draws random numbers."""
    nodes = random_nodes(program)
    if not nodes:
        return
    places = f"{nodes[0].target} at {nodes[0].name}" + (f" and {len(nodes) - 1} more" if len(nodes) > 1 else "")
    yield f"each call has another result: the program draws random numbers ({places})"
    if trained := [node for node in nodes if trains(node)]:
        yield f"{trained[0].target} at {trained[0].name} acts as in training; expected training=self.training"


def _loops_on_cpu(facts: Sequence[Fact]) -> Iterator[str]:
    """Yield a note if a program for a GPU has recurrent nets."""
    loops = [fact for fact in facts if fact.tag is None and fact.op in lowered_operators.LOOPS]
    if not loops:
        return
    yield (
        f"loops of recurrent nets run on the CPU (the first is {node_reference(loops[0].name, loops[0].origin)}),"
        " because no backend on the GPU has loops; their inputs and results are copied between GPU and CPU"
    )
