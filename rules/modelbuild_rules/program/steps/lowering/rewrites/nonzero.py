"""Correct `nonzero` and indexing by masks.

The portable kernel of nonzero returns wrong indices for inputs of two or more dimensions.

The kernel writes rows one after another, but the program's memory plan has eager mode's layout, column by column, which
most kernels also reject as an input. For one-dimensional inputs both layouts have the same bytes. So nonzero is applied
to the flat input, its only column is copied to the contiguous layout, and the coordinates are computed from it. Seen in
executorch 1.5.1.

The portable kernel of `index` counts a mask from its beginning for each element that it finds, so its time grows with
the square of the mask's size. So masks become the indices of their elements. Seen in executorch 1.5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from modelbuild_rules.program.steps.lowering.rewrites.decomposition import all_nodes, decomposed

aten = torch.ops.aten

_OPERATORS = (aten.nonzero.default, aten.argwhere.default, aten.where.default, aten.nonzero_numpy.default)


def has_nonzero(program: ExportedProgram) -> bool:
    """Return whether a program searches for nonzero elements, or has masks as indices."""
    return any(map(_concerned, all_nodes(program.graph_module)))


def correct_nonzero(program: ExportedProgram) -> ExportedProgram:
    """Return an equivalent program with nonzero only in its correct form and without masks as indices.

    The indices are row by row in memory, not column by column as in eager mode. where(condition) and argwhere, which
    become nonzero, are corrected too.
    """
    return decomposed(program, _decompositions())


def _concerned(node: torch.fx.Node) -> bool:
    if node.target == aten.index.Tensor:
        return _has_mask([None if index is None else index.meta["val"] for index in node.args[1]])
    return node.target in _OPERATORS


def _has_mask(indices: Sequence[torch.Tensor | None]) -> bool:
    return any(map(_is_mask, indices))


def _is_mask(index: torch.Tensor | None) -> bool:
    """Return whether an index is a mask. A mask without dimensions selects all or nothing, and does not count."""
    return index is not None and index.dtype in (torch.bool, torch.uint8) and index.dim() > 0


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
        return torch.div(flat, step, rounding_mode="floor").fmod(size)

    def where(condition: torch.Tensor) -> list[torch.Tensor]:
        return list(nonzero(condition.reshape(-1) if condition.dim() == 0 else condition).unbind(1))

    def index(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Any:
        if not _has_mask(indices):
            return NotImplemented
        given = [each for each in indices if each is not None]
        if len(given) == 1:
            (mask,) = given
            first = next(place for place, each in enumerate(indices) if each is not None)
            return x.flatten(first, first + mask.dim() - 1).index_select(first, flat_indices(mask).squeeze(1))
        places: list[torch.Tensor | None] = []
        for each in indices:
            places += where(each) if each is not None and _is_mask(each) else [each]
        return aten.index.Tensor(x, places)

    return {
        aten.index.Tensor: index,
        aten.nonzero.default: nonzero,
        aten.argwhere.default: nonzero,
        aten.where.default: where,
        aten.nonzero_numpy.default: where,
    }
