"""Replace operators that XNNPACK lacks by those that it takes, with the same results: in a transformer, each would be
an island of portable kernels, which splits a partition.

| operator, of sizes that are known | becomes |
| --- | --- |
| a product with a number, to which executorch decomposes attention | a product with a tensor of it |
| expand to the tensor's own shape, which matmul is decomposed to | its tensor |
| select | a slice and a view |
| unsqueeze and squeeze | a view |
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir.dialects._ops import ops
from torch.fx import Node
from torch.fx.passes.infra.pass_base import PassResult

edge = ops.edge.aten

_RESHAPING = (edge.squeeze_copy.dims, edge.unsqueeze_copy.default)


def with_substitutes(module: torch.fx.GraphModule) -> PassResult:
    """Replace the operators of this table (a pass on edge graphs, whose tensors are in row-major order)."""
    changed = False
    for node in list(module.graph.nodes):
        made = _replacement(module.graph, node)
        if made is not None:
            node.replace_all_uses_with(made)
            module.graph.erase_node(node)
            changed = True
    module.recompile()
    return PassResult(module, changed)


def _replacement(graph: torch.fx.Graph, node: Node) -> Node | None:
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
            return _call(graph, node, edge.mul.Tensor, x, number)
        if node.target == edge.select_copy.int:
            dim, index = node.args[1] % given.dim(), node.args[2]
            index %= given.shape[dim]
            x = _call(graph, node, edge.slice_copy.Tensor, x, dim, index, index + 1)
        return _call(graph, node, edge.view_copy.default, x, list(value.shape))


def _is_known(size: Any) -> bool:
    return isinstance(size, int) and size > 0


def _call(graph: torch.fx.Graph, node: Node, target: Any, x: Node, *args: Any) -> Node:
    """Add a call in place of a node."""
    made = graph.call_function(target, (x, *args))
    values = torch.fx.node.map_arg((x, *args), lambda each: each.meta["val"])
    made.meta = {**node.meta, "val": target(*values)}
    made.meta.pop("tensor_meta", None)
    return made
