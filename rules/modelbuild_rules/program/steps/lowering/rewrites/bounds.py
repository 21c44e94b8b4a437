"""Bound sizes that depend on values, for ExecuTorch's memory plan.

torch.export gives each such size a symbol, whose range has an upper bound only if the operator states one. For the
operators here the bound follows from the inputs: nms keeps no more boxes than it gets. nonzero of a tensor whose own
size depends on values has as many elements at most, of which torch.export may not have known the bound.

Private names used, checked on torch 2.14.0: torch.SymInt.node (expr, shape_env), ShapeEnv.var_to_range,
torch.utils._sympy.value_ranges (bound_sympy and ValueRanges). The ranges are changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

aten = torch.ops.aten


def bound_sizes(ep: ExportedProgram) -> None:
    """Give each size that depends on values the smallest upper bound that is known."""
    for module in ep.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            limit = _LIMITS.get(_name(node.target))
            if limit is None:
                continue
            for size in node.meta["val"].shape:
                if isinstance(size, torch.SymInt) and size.node.expr in node.meta.get("unbacked_bindings", {}):
                    _bound(ep, size, limit(*node.args, **node.kwargs))


def _name(target: Any) -> str:
    return str(target) if isinstance(target, torch._ops.OpOverload) else ""


def _bound(ep: ExportedProgram, size: torch.SymInt, most: int | None) -> None:
    if most is None:
        return
    symbol = size.node.expr
    ranges = size.node.shape_env.var_to_range
    ranges[symbol] = ranges[symbol] & ValueRanges(0, most)
    ep.range_constraints[symbol] = ranges[symbol]


def _upper(size: int | torch.SymInt) -> int | None:
    """Return the upper bound of a size; None if it has none."""
    if isinstance(size, int):
        return size
    upper = bound_sympy(size.node.expr, size.node.shape_env.var_to_range).upper
    return int(upper) if isinstance(upper, (int, sympy.Integer)) else None


def _nms(boxes: Any, *others: Any) -> int | None:
    return _upper(boxes.meta["val"].shape[0])


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> int | None:
    """Return the bound of the sliced dimension."""
    last = end.meta["val"] if isinstance(end, torch.fx.Node) else end
    from_end = last is None or (isinstance(last, int) and last < 0)
    limits = [_upper(x.meta["val"].shape[dim]), None if from_end else _upper(last)]
    return min((each for each in limits if each is not None), default=None)


def _nonzero(x: Any) -> int | None:
    sizes = [_upper(size) for size in x.meta["val"].shape]
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def _index(x: Any, indices: Sequence[Any]) -> int | None:
    """Return the bound of the dimension that a mask selects from."""
    masks = [each for each in indices if each is not None and each.meta["val"].dtype in (torch.bool, torch.uint8)]
    return _nonzero(masks[0]) if masks else None


_LIMITS: dict[str, Callable[..., int | None]] = {
    "aten.index.Tensor": _index,
    "aten.nonzero.default": _nonzero,
    "aten.slice.Tensor": _slice,
    "modelbuild_kernels.batched_nms.default": _nms,
    "torchvision.nms.default": _nms,
}
