"""Bound sizes that depend on values, for ExecuTorch's memory plan.

torch.export gives each such size a symbol, whose range has an upper bound only if the operator states one. For the
operators here the bound follows from the inputs: nms keeps no more boxes than it gets. nonzero returns at most as many
elements as its input has; torch.export may not have known this bound if the input's size depends on values. The sum of
constant repeats is known.

Private names used, checked on torch 2.14.0: torch.SymInt.node (expr, shape_env), ShapeEnv.var_to_range,
torch.utils._sympy.value_ranges.ValueRanges. The ranges are changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import ValueRanges

from modelbuild_rules.backend_api.steps.nodes import origin
from modelbuild_rules.node_references import node_reference
from modelbuild_rules.operators.steps.sizes import upper
from modelbuild_rules.program.steps.lowering.rewrites.decomposition import all_nodes

aten = torch.ops.aten


def bound_sizes(ep: ExportedProgram) -> str:
    """Give each size that depends on values the least known upper bound. Return the error message for nodes that make
    unbounded sizes; '' if there are none."""
    makers: dict[Any, torch.fx.Node] = {}
    unbounded: dict[torch.fx.Node, str] = {}
    for node in all_nodes(ep.graph_module):
        own = node.meta.get("unbacked_bindings", {})
        makers |= dict.fromkeys(own, node)
        limit, place = _LIMITS.get(_name(node.target)), _REPEATS.get(_name(node.target))
        for size in _sizes(node):
            if limit is not None and size.node.expr in own:
                _bound(ep, size, limit(*node.args, **node.kwargs))
            elif place is not None and size.node.expr in own:
                _bound(ep, size, _sum(ep, node.args[place]))
            if upper(size) is None and (made := _unbounded(size, makers)):
                unbounded[made] = _text(made)
    return "; ".join(unbounded.values())


def restore_ranges(ep: ExportedProgram, declared: Mapping[Any, ValueRanges[Any]]) -> None:
    """Give the sizes of inputs their declared ranges again. torch narrows them as it decomposes a program: a comparison
    with the example's size makes it assume that no size is 0 or 1."""
    for value in (node.meta.get("val") for node in ep.graph.find_nodes(op="placeholder")):
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            if isinstance(size, torch.SymInt) and size.node.expr in declared:
                ranges = size.node.shape_env.var_to_range
                ranges[size.node.expr] = ep.range_constraints[size.node.expr] = declared[size.node.expr]


def _sizes(node: torch.fx.Node) -> list[torch.SymInt]:
    """Return the sizes of a node's tensors that are not numbers."""
    values = [each for each in pytree.tree_leaves(node.meta.get("val")) if isinstance(each, torch.Tensor)]
    return [size for value in values for size in value.shape if isinstance(size, torch.SymInt)]


def _unbounded(size: torch.SymInt, makers: Mapping[Any, torch.fx.Node]) -> torch.fx.Node | None:
    """Return the node that makes the values on which an unbounded size depends; None for sizes of inputs."""
    ranges = size.node.shape_env.var_to_range
    unbounded = (each for each in size.node.expr.free_symbols if not isinstance(ranges[each].upper, sympy.Integer))
    return next((makers[each] for each in sorted(unbounded, key=str) if each in makers), None)


def _text(node: torch.fx.Node) -> str:
    depends, also = "a size of its result depends on values and", ""
    bound = "torch._check(result.shape[0] <= 1000)"
    if _name(node.target) in _REPEATS:
        also = " or the argument `output_size`"
    elif not isinstance(pytree.tree_leaves(node.meta["val"])[0], torch.Tensor):
        depends, bound = "its number is used as a size and", "torch._check(number <= 1000)"
    return (
        f"{node.target} ({node_reference(node.name, origin(node) or node.name)}): {depends} has no upper bound;"
        f" expected one, as `{bound}`{also} gives"
    )


def _name(target: Any) -> str:
    return str(target) if isinstance(target, torch._ops.OpOverload) else ""


def _bound(ep: ExportedProgram, size: torch.SymInt, most: int | None) -> None:
    if most is None:
        return
    symbol = size.node.expr
    ranges = size.node.shape_env.var_to_range
    ranges[symbol] = ranges[symbol] & ValueRanges(0, most)
    ep.range_constraints[symbol] = ranges[symbol]


def _nms(boxes: Any, *others: Any) -> int | None:
    return upper(boxes.meta["val"].shape[0])


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> int | None:
    """Return the bound of the sliced dimension."""
    last = end.meta["val"] if isinstance(end, torch.fx.Node) else end
    from_end = last is None or (isinstance(last, int) and last < 0)
    limits = [upper(x.meta["val"].shape[dim]), None if from_end else upper(last)]
    return min((each for each in limits if each is not None), default=None)


def _numel(x: Any, *how: bool) -> int | None:
    sizes = [upper(size) for size in x.meta["val"].shape]
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def _unique_dim(x: Any, dim: int, *how: bool) -> int | None:
    sizes = x.meta["val"].shape or (1,)
    return upper(sizes[dim])


def _unique_consecutive(x: Any, inverse: bool = False, counts: bool = False, dim: int | None = None) -> int | None:
    return _numel(x) if dim is None else _unique_dim(x, dim)


def _bincount(x: Any, weights: Any = None, minlength: Any = 0) -> int | None:
    """Return the number of values of an 8-bit type; no other bound is known."""
    kind = x.meta["val"].dtype
    least = upper(minlength.meta["val"] if isinstance(minlength, torch.fx.Node) else minlength)
    return None if kind.itemsize > 1 or least is None else max(torch.iinfo(kind).max + 1, least)


def _sum(ep: ExportedProgram, repeats: torch.fx.Node) -> int | None:
    """Return the sum of a constant's numbers; None for a tensor that is not constant."""
    while repeats.target in _COPIES:
        repeats = repeats.args[0]
    signature = ep.graph_signature
    constants = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    name = constants.get(repeats.name)
    if name is None or name in signature.buffers_to_mutate.values():
        return None
    value = ep.state_dict[name] if name in ep.state_dict else ep.constants[name]
    return int(value.sum())


def _index(x: Any, indices: Sequence[Any]) -> int | None:
    """Return the bound of the dimension that a mask selects from."""
    masks = [each for each in indices if each is not None and each.meta["val"].dtype in (torch.bool, torch.uint8)]
    return _numel(masks[0]) if masks else None


_COPIES = (aten.lift_fresh_copy.default, aten.detach.default, aten.detach_.default, aten.clone.default)

_REPEATS = {"aten.repeat_interleave.Tensor": 0, "aten.repeat_interleave.self_Tensor": 1}
"""The argument whose sum is the size of the result."""

_LIMITS: dict[str, Callable[..., int | None]] = {
    "aten._unique2.default": _numel,
    "aten.bincount.default": _bincount,
    "aten.index.Tensor": _index,
    "aten.nonzero.default": _numel,
    "aten.slice.Tensor": _slice,
    "aten.unique_consecutive.default": _unique_consecutive,
    "aten.unique_dim.default": _unique_dim,
    "modelbuild_kernels.batched_nms.default": _nms,
    "torchvision.nms.default": _nms,
}
