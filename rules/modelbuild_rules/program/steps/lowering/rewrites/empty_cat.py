"""Correct `cat` and `stack` of tensors that have no elements, because a size that depends on values is 0.

The portable kernel of cat takes such tensors as 0 wide: four of 0 x 1 become 0 x 0 along dimension 1, not 0 x 4. So the
result is viewed in its own shape. Seen in executorch 1.5.1.

A vector without elements may be among tensors of more dimensions, as in caches of transformers, and adds nothing. It is
removed, because backends do not take empty vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from modelbuild_rules.backend_api.steps.shapes import may_be_zero
from modelbuild_rules.program.steps.lowering.rewrites.decomposition import all_nodes, decomposed

aten = torch.ops.aten


def has_empty_cat(program: ExportedProgram) -> bool:
    """Return whether a program joins tensors that may lack elements."""
    return any(map(_concerned, all_nodes(program.graph_module)))


def correct_cat(program: ExportedProgram) -> ExportedProgram:
    """Return an equivalent program whose results of cat and stack have eager mode's shapes."""
    return decomposed(program, _decompositions(dict(program.range_constraints)))


def _concerned(node: torch.fx.Node) -> bool:
    if node.target not in (aten.cat.default, aten.stack.default):
        return False
    tensors, dim = [each.meta["val"] for each in node.args[0]], node.args[1] if len(node.args) > 1 else 0
    if len(_counted(tensors)) < len(tensors):
        return True
    return _may_lack_elements(tensors, dim if node.target == aten.cat.default else None)


def _counted(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors without vectors of no elements, unless all are vectors."""
    rank = max(each.dim() for each in tensors)
    return [each for each in tensors if each.dim() == rank]


def _may_lack_elements(
    tensors: Sequence[torch.Tensor], dim: int | None, declared: Mapping[Any, Any] | None = None
) -> bool:
    """Return whether a dimension of the tensors other than `dim` may be 0."""
    shape = list(tensors[0].shape)
    if dim is not None and shape:
        del shape[dim]
    return any(may_be_zero(size, declared) for size in shape)


def _decompositions(declared: Mapping[Any, Any]) -> dict[Any, Callable[..., Any]]:
    inside = False

    def joined(tensors: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
        nonlocal inside
        inside = True
        try:
            made = aten.cat.default(tensors, dim)
        finally:
            inside = False
        return aten.view.default(made, made.shape)

    def cat(tensors: Sequence[torch.Tensor], dim: int = 0) -> Any:
        counted = _counted(tensors)
        if len(counted) < len(tensors):
            return aten.cat.default(counted, dim) if len(counted) > 1 else counted[0].clone()
        if inside or not _may_lack_elements(tensors, dim, declared):
            return NotImplemented
        return joined(tensors, dim)

    def stack(tensors: Sequence[torch.Tensor], dim: int = 0) -> Any:
        if not _may_lack_elements(tensors, None, declared):
            return NotImplemented
        return joined([each.unsqueeze(dim) for each in tensors], dim)

    return {aten.cat.default: cat, aten.stack.default: stack}
