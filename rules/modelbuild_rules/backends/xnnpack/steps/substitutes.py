"""Replace operators that XNNPACK lacks by those that it takes, with the same results: in a transformer, each would be
an island of portable kernels, which splits a partition.

| operator, of sizes that are known | becomes |
| --- | --- |
| a product with a number, to which executorch decomposes attention | a product with a tensor of it |
| expand to the tensor's own shape, which matmul is decomposed to | its tensor |
| select | a slice and a view |
| unsqueeze and squeeze | a view |
| attention's softmax, which is 0 in a row of -inf | a softmax of the row and the least finite number, without it |

The last form is right for scores without a mask of numbers. A row whose greatest number is the least finite number, as
such masks make them, would lose a share to the additional number.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from executorch.exir.dialects._ops import ops
from torch.fx import Node
from torch.fx.passes.infra.pass_base import PassResult

edge = ops.edge.aten

_RESHAPING = (edge.squeeze_copy.dims, edge.unsqueeze_copy.default)
_LEAST = torch.finfo(torch.float32).min


def with_substitutes(module: torch.fx.GraphModule) -> PassResult:
    """Replace the operators of this table (a pass on edge graphs, whose tensors are in row-major order)."""
    changed = False
    for node in list(module.graph.nodes):
        made = _replacement(module.graph, node)
        if made is not None:
            node.replace_all_uses_with(made)
            module.graph.erase_node(node)
            changed = True
    if changed:
        module.graph.eliminate_dead_code()
    module.recompile()
    return PassResult(module, changed)


def _replacement(graph: torch.fx.Graph, node: Node) -> Node | None:
    if node.target == edge.where.self:
        return _softmax_of_scores(graph, node)
    if node.target not in (edge.expand_copy.default, edge.mul.Scalar, edge.select_copy.int, *_RESHAPING):
        return None
    x, value = node.args[0], node.meta["val"]
    given = x.meta["val"]
    if x.op == "placeholder" or value.dtype != torch.float32 or not all(map(_is_known, (*given.shape, *value.shape))):
        return None
    with graph.inserting_before(node):
        if node.target == edge.expand_copy.default:
            return x if given.shape == value.shape else None
        if node.target == edge.mul.Scalar:
            if given.dtype != torch.float32 or not given.dim() or not isinstance(node.args[1], (int, float)):
                return None
            number = graph.call_function(edge.full.default, ([1], float(node.args[1])))
            number.meta = {**node.meta, "val": value.new_empty(1)}
            return call_in_place_of(graph, node, edge.mul.Tensor, x, number)
        if node.target == edge.select_copy.int:
            dim, index = node.args[1] % given.dim(), node.args[2]
            index %= given.shape[dim]
            x = call_in_place_of(graph, node, edge.slice_copy.Tensor, x, dim, index, index + 1)
        return call_in_place_of(graph, node, edge.view_copy.default, x, list(value.shape))


def _softmax_of_scores(graph: torch.fx.Graph, node: Node) -> Node | None:
    """Return another form of a softmax that is 0 in a row of -inf, unless it may be of a mask's numbers."""
    masked_rows, zeros, softmax = node.args
    if _target(softmax) != edge._softmax.default or _number(zeros) != 0:
        return None
    x, dim, _ = softmax.args
    given = x.meta["val"]
    rows = _argument(masked_rows, edge.logical_not.default)
    found = _argument(_argument(rows, edge.any.dim), edge.logical_not.default)
    if _target(found) != edge.eq.Scalar or found.args != (x, -math.inf) or rows.args[1:] != (dim, True):
        return None
    if not _is_scores(x) or given.dtype != torch.float32 or not all(map(_is_known, given.shape)):
        return None
    shape = list(given.shape)
    shape[dim] = 1
    with graph.inserting_before(node):
        least = graph.call_function(edge.full.default, (shape, _LEAST))
        least.meta = {**node.meta, "val": given.new_empty(shape)}
        joined = call_in_place_of(graph, node, edge.cat.default, [x, least], dim)
        made = call_in_place_of(graph, node, edge._softmax.default, joined, dim, False)
        return call_in_place_of(graph, node, edge.slice_copy.Tensor, made, dim, 0, given.shape[dim])


def _target(node: Any) -> Any:
    return node.target if isinstance(node, Node) else None


def _argument(node: Any, target: Any) -> Any:
    """Return the first argument of a node if it is a call of this operator; else None."""
    return node.args[0] if _target(node) == target else None


def _is_scores(node: Node) -> bool:
    """Return whether a node is a product of matrices, to which a mask of truth values may be added."""
    if _target(node) == edge.add.Tensor and not node.kwargs:
        product, mask = map(_reshaped, node.args)
        if _target(mask) != edge.where.self or any(_number(each) not in (0.0, -math.inf) for each in mask.args[1:]):
            return False
        node = product
    return bool(_target(_reshaped(node)) == edge.bmm.default)


def _reshaped(node: Any) -> Any:
    """Return the node whose values a node has in another shape, or the node."""
    while _target(node) in (edge.view_copy.default, edge.expand_copy.default):
        node = node.args[0]
    return node


def _number(node: Node) -> Any:
    """Return the number in all elements of a node; None if it is not known."""
    places = {torch.ops.aten.scalar_tensor.default: 0, edge.full.default: 1, edge.full_like.default: 1}
    place = places.get(_target(node))
    return None if place is None else node.args[place]


def _is_known(size: Any) -> bool:
    return isinstance(size, int) and size > 0


def call_in_place_of(graph: torch.fx.Graph, node: Node, target: Any, *args: Any) -> Node:
    """Add a call in place of a node."""
    made = graph.call_function(target, args)
    values = torch.fx.node.map_arg(args, lambda each: each.meta["val"])
    made.meta = {**node.meta, "val": target(*values)}
    made.meta.pop("tensor_meta", None)
    return made
