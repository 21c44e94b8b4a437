"""Sizes in a program, and orders of tensors in memory.

A size node that several users share would become an input or an output of partitions, but a delegate's arguments are
tensors. So `own_sizes` copies for each user the nodes that compute the size, down to the tensors whose sizes are read.
If one of the user's own inputs has the size, the size is read from that input: otherwise a partition would need another
tensor for its size alone, and would change when a node is inserted in front of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import eq
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.fx.passes.infra.pass_base import PassResult
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import bound_sympy

from modelbuild_rules.operators.steps.sizes import upper as upper


def on_sizes(node: torch.fx.Node) -> bool:
    """Return whether a node reads a size or computes with sizes."""
    values = values_of(node)
    return node.op == "call_function" and bool(values) and all(isinstance(value, torch.SymInt) for value in values)


def values_of(node: torch.fx.Node) -> list[Any]:
    """Return the tensors and symbolic numbers that a node computes."""
    kinds = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    return [value for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, kinds)]


def own_sizes(module: torch.fx.GraphModule) -> PassResult:
    """Copy nodes that compute sizes for each user, except sizes that depend on values (a pass on edge graphs)."""
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
    """Return for each symbolic size the first input of a node with that size, and its dimension."""
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


def may_be_zero(size: int | torch.SymInt, declared: Mapping[Any, Any] | None = None) -> bool:
    """Return whether a size may be 0. Comparisons of sizes cannot tell: torch assumes that sizes of inputs are
    positive. `declared` are ranges of symbols that torch narrows while it traces a program."""
    if isinstance(size, int):
        return size == 0
    return not bound_sympy(size.node.expr, {**size.node.shape_env.var_to_range, **(declared or {})}).lower > 0


def has_other_order(value: Any) -> bool:
    """Return whether this is a tensor that may have another order in memory. Dimensions of size 1 count, as in
    executorch."""
    if not isinstance(value, torch.Tensor):
        return False
    row_major = torch.empty_like(value, memory_format=torch.contiguous_format)
    return not all(map(statically_known_true, map(eq, value.stride(), row_major.stride())))
