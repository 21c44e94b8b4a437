"""Correct `nonzero`, whose portable kernel returns wrong indices for inputs of two or more dimensions.

The kernel writes rows one after another, but the program's memory plan has eager mode's layout, column by column, which
most kernels also reject as an input. For one-dimensional inputs both layouts have the same bytes. So nonzero is applied
to the flat input, its only column is copied to the contiguous layout, and the coordinates are computed from it. Seen in
executorch 1.4.1 and 1.5.1.

Indexing by a channels-last mask also returns wrong elements, or fails. So masks of four or more dimensions, and the
tensors that they index, are first copied to the contiguous layout. Seen in executorch 1.4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from modelbuild_rules.program.steps.lowering.rewrites.decomposition import decomposed

aten = torch.ops.aten


def correct_nonzero(ep: ExportedProgram) -> ExportedProgram:
    """Return an equivalent program that uses nonzero only in its correct form, or `ep` itself if it has no nonzero.

    The indices are row by row in memory, not column by column as in eager mode. where(condition) and argwhere, which
    become nonzero, are corrected too.
    """
    decompositions = _decompositions()
    graphs = (module.graph for module in ep.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    if not any(_concerned(node, decompositions) for graph in graphs for node in graph.nodes):
        return ep
    return decomposed(ep, decompositions)


def _concerned(node: torch.fx.Node, decompositions: Mapping[Any, Any]) -> bool:
    if node.target == aten.index.Tensor:
        return _has_mask([None if index is None else index.meta["val"] for index in node.args[1]])
    return node.target in decompositions


def _has_mask(indices: Sequence[torch.Tensor | None]) -> bool:
    """Return whether one of the indices is a mask that may be channels-last."""
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) and i.dim() >= 4 for i in indices)


def _row_by_row(x: torch.Tensor) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _decompositions() -> dict[Any, Callable[..., Any]]:
    inside = False

    def flat_indices(x: torch.Tensor) -> torch.Tensor:
        """Return the indices of nonzero elements in the flat input: int64, n x 1, row by row."""
        nonlocal inside
        inside = True
        try:
            return _row_by_row(aten.nonzero.default(x.reshape(-1)))
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
        # Vectors of sizes are concatenated: the portable `cat` is correct unless all its inputs are empty.
        step, size = (torch.cat([x.new_full((1,), n, dtype=torch.int64) for n in ns]) for ns in (steps, x.shape))
        return torch.div(flat, step, rounding_mode="floor").remainder(size)

    def where(condition: torch.Tensor) -> list[torch.Tensor]:
        return list(nonzero(condition.reshape(-1) if condition.dim() == 0 else condition).unbind(1))

    def index(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Any:
        nonlocal inside
        if inside or not _has_mask(indices):
            return NotImplemented
        inside = True
        try:
            return aten.index.Tensor(_row_by_row(x), [None if i is None else _row_by_row(i) for i in indices])
        finally:
            inside = False

    return {
        aten.index.Tensor: index,
        aten.nonzero.default: nonzero,
        aten.argwhere.default: nonzero,
        aten.where.default: where,
        aten.nonzero_numpy.default: where,
    }
