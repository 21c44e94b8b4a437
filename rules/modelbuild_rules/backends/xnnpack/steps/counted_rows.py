"""Give layers of rows whose number depends on values one row more, because XNNPACK takes no empty tensors.

A detector's layers on proposals would otherwise be portable kernels, which compute on one thread. The additional row is
zeros, and is removed behind the layers and the activations that follow them.
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir.dialects._ops import ops
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.infra.pass_base import PassResult

from modelbuild_rules.backends.xnnpack.steps.substitutes import call_in_place_of

edge = ops.edge.aten

_LAYERS = {edge.addmm.default: 1, edge.convolution.default: 0, edge.linear.default: 0, edge.mm.default: 0}
"""The place of the rows among the arguments."""

_OF_ROWS = dict.fromkeys(
    (
        *(edge.elu.default, edge.gelu.default, edge.hardtanh.default, edge.leaky_relu.default, edge.relu.default),
        *(edge.sigmoid.default, edge.tanh.default),
    ),
    0,
)
"""Operators of one tensor whose rows they compute one by one."""


def with_additional_row(module: torch.fx.GraphModule) -> PassResult:
    """Replace these layers (a pass on edge graphs)."""
    longer: dict[Node, Node] = {}
    for node in list(module.graph.nodes):
        place = {**_LAYERS, **_OF_ROWS}.get(node.target)
        if place is None or not _is_counted(node, place):
            continue
        rows = longer.get(node.args[place])
        if rows is None and node.target not in _LAYERS:
            continue
        with module.graph.inserting_before(node):
            rows = longer[node.args[place]] = rows or _with_row(module.graph, node, node.args[place])
            made = call_in_place_of(module.graph, node, node.target, *node.args[:place], rows, *node.args[place + 1 :])
            made.kwargs = node.kwargs
            cut = module.graph.call_function(edge.slice_copy.Tensor, (made, 0, 0, -1))
        cut.meta = dict(node.meta)
        longer[cut] = made
        node.replace_all_uses_with(cut)
        module.graph.erase_node(node)
    if longer:
        module.graph.eliminate_dead_code()
    module.recompile()
    return PassResult(module, bool(longer))


def _is_counted(node: Node, place: int) -> bool:
    """Return whether the rows of a node's argument and result, and only their number, depend on values."""
    given, made = node.args[place].meta["val"], node.meta["val"]
    constant = all(each is node.args[place] or not _depends(each.meta["val"]) for each in node.all_input_nodes)
    others = all(isinstance(size, int) and size > 0 for value in (given, made) for size in value.shape[1:])
    return bool(constant and others and given.dtype == torch.float32 and _depends(given) and _depends(made))


def _depends(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and any(map(free_unbacked_symbols, value.shape))


def _with_row(graph: Graph, node: Node, x: Node) -> Node:
    value = x.meta["val"]
    shape = [1, *value.shape[1:]]
    row = graph.call_function(edge.full.default, (shape, 0.0))
    row.meta = {**node.meta, "val": value.new_empty(shape)}
    return call_in_place_of(graph, node, edge.cat.default, [x, row])
