"""Gives each node the sizes that it computes with as nodes of its own.

A size that stands once for all its users would be an input or an output of partitions. A delegate's arguments are
tensors, so each user gets its own copy of the nodes that compute it, down to the tensors whose sizes are asked for.
Where a tensor that the user takes has that size, it is that one: else a partition would take one more tensor for its
size alone, and become another one when something is put in front of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.infra.pass_base import PassResult
from torch.utils import _pytree as pytree


def on_sizes(node: torch.fx.Node) -> bool:
    """Whether a node asks for a size, or computes with sizes."""
    values = values_of(node)
    return node.op == "call_function" and bool(values) and all(isinstance(value, torch.SymInt) for value in values)


def values_of(node: torch.fx.Node) -> list[Any]:
    """The tensors and symbolic numbers that a node computes."""
    kinds = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    return [value for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, kinds)]


def own_sizes(module: torch.fx.GraphModule) -> PassResult:
    """Copy what computes sizes for each of its users, but for sizes that depend on values. A pass on edge graphs."""
    graph = module.graph
    sizes = {node for node in graph.nodes if on_sizes(node) and not free_unbacked_symbols(node.meta["val"])}
    for node in list(graph.nodes):
        if node not in sizes and node.op == "call_function":
            with graph.inserting_before(node):
                for source in node.all_input_nodes:
                    if source in sizes:
                        node.replace_input_with(source, _copied(graph, source, sizes, {}, _by_size(node)))
    for node in reversed(list(graph.nodes)):
        if node in sizes and not node.users:
            graph.erase_node(node)
    module.recompile()
    return PassResult(module, bool(sizes))


def _by_size(node: torch.fx.Node) -> dict[Any, tuple[torch.fx.Node, int]]:
    """The tensors that a node takes, with a dimension of theirs, by its size; of those that are equal the first."""
    found: dict[Any, tuple[torch.fx.Node, int]] = {}
    for source in node.all_input_nodes:
        value = source.meta.get("val")
        for dimension, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt):
                found.setdefault(size.node.expr, (source, dimension))
    return found


def _copied(
    graph: torch.fx.Graph,
    node: torch.fx.Node,
    sizes: set[Any],
    made: dict[Any, Any],
    nearer: Mapping[Any, tuple[torch.fx.Node, int]],
) -> torch.fx.Node:
    if node not in made:
        for source in node.all_input_nodes:  # before the node itself, in the graph's order
            if source in sizes:
                _copied(graph, source, sizes, made, nearer)
        made[node] = graph.node_copy(node, lambda source: made.get(source, source))
        if node.target is torch.ops.aten.sym_size.int and node.meta["val"].node.expr in nearer:
            made[node].args = nearer[node.meta["val"].node.expr]
    return made[node]
