"""Corrects `nonzero`, whose portable kernel gives wrong indices for inputs of two or more dimensions.

The kernel writes its rows one after the other, but the program is planned with eager's result in mind, which lies
column by column; most kernels then refuse such a result as their input. For inputs of one dimension the two are the
same bytes, so nonzero is asked for the flat input, its one column is copied into the usual layout, and the coordinates
are computed from it. Seen in executorch 1.4.1 and 1.5.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram

aten = torch.ops.aten


def correct_nonzero(ep: ExportedProgram) -> ExportedProgram:
    """A program that computes the same, with nonzero in the one form that is right. `ep` itself where it has none.

    The indices lie row by row in memory, not column by column as eager's. where(condition) and argwhere, which become
    nonzero, are corrected too.
    """
    decompositions = _decompositions()
    graphs = (module.graph for module in ep.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    if not any(node.target in decompositions for graph in graphs for node in graph.nodes):
        return ep
    return ep.run_decompositions(decompositions)


def _decompositions() -> dict[Any, Callable[..., Any]]:
    inside = False

    def flat_indices(x: torch.Tensor) -> torch.Tensor:
        """Indices of the nonzero elements in the flat input: int64, n x 1, row by row."""
        nonlocal inside
        inside = True
        try:
            return aten.nonzero.default(x.reshape(-1)).clone(memory_format=torch.contiguous_format)
        finally:
            inside = False

    def nonzero(x: torch.Tensor) -> Any:
        if inside:
            return NotImplemented
        flat = flat_indices(x)
        if x.dim() == 0:
            return flat.narrow(1, 0, 0)
        if x.dim() == 1:
            return flat
        steps = [1]
        for size in reversed(x.shape[1:]):
            steps.insert(0, steps[0] * size)
        # Vectors of sizes by concatenation: the portable `cat` is right as long as it is not given empty tensors only.
        step, size = (torch.cat([x.new_full((1,), n, dtype=torch.int64) for n in ns]) for ns in (steps, x.shape))
        return torch.div(flat, step, rounding_mode="floor").remainder(size)

    def where(condition: torch.Tensor) -> list[torch.Tensor]:
        return list(nonzero(condition.reshape(-1) if condition.dim() == 0 else condition).unbind(1))

    return {
        aten.nonzero.default: nonzero,
        aten.argwhere.default: nonzero,
        aten.where.default: where,
        aten.nonzero_numpy.default: where,
    }
