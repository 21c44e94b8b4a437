"""Find what splits a program into partitions: the nodes between partitions that no partition has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.delegate import executorch_call_delegate
from torch.fx import Node
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import bound_sympy

from modelbuild_rules.backend_api.steps.nodes import computing
from modelbuild_rules.backend_api.steps.shapes import values_of
from modelbuild_rules.program.steps.lowering.delegation import Fact
from modelbuild_rules.program.steps.partitions.placeholder import partition_of

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Debug
    from modelbuild_rules.program.documents import Break


def breaks(program: Any, facts: Sequence[Fact], places: Debug, advice: Mapping[str, str]) -> list[Break]:
    """Return the groups of connected nodes that read results of partitions and make inputs of partitions, most bytes
    first.

    program  an edge program whose partitions are calls of delegates; `facts` are its nodes
    places   of the nodes that they were made from, in the model's source
    advice   by operator, what to write instead
    """
    known = {fact.name: fact for fact in facts}
    outside = [node for name, node in computing(program.graph_module) if name in known and node.graph is program.graph]
    groups = _connected(outside)
    found = [_break(program.graph_module, group, known, places, advice) for group in groups]
    return sorted((each for each in found if each is not None), key=lambda each: -(each["reads"] + each["read"]))


def _break(
    module: torch.fx.GraphModule,
    group: Sequence[Node],
    known: Mapping[str, Fact],
    places: Debug,
    advice: Mapping[str, str],
) -> Break | None:
    given = {node: call for node in _inputs(group) if (call := _call(node)) is not None}
    made = {node: calls for node in group if (calls := [user for user in _users(node) if _call(user) is user])}
    if not given or not made:
        return None
    before = {_partition(module, call): None for call in given.values()}
    after = {_partition(module, call): None for calls in made.values() for call in calls}
    operators = dict.fromkeys(known[node.name].op for node in group)
    return {
        "nodes": [
            {
                "name": node.name,
                "op": known[node.name].op,
                "source": places.get(known[node.name].origin or "", {}).get("source"),
            }
            for node in group
        ],
        "before": list(before),
        "after": list(after),
        "reads": sum(map(_bytes, given)),
        "read": sum(map(_bytes, made)),
        "instead": {op: advice[op] for op in operators if op in advice},
    }


def _connected(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return groups of nodes, each in the graph's order, that read each other's results."""
    group = {node: [node] for node in nodes}
    for node in nodes:
        for source in map(_taken_apart, node.all_input_nodes):
            if source in group and group[source] is not group[node]:
                joined = sorted([*group[source], *group[node]])
                group |= dict.fromkeys(joined, joined)
    return list({id(each): each for each in group.values()}.values())


def _inputs(group: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes that a group reads, once each."""
    yield from dict.fromkeys(source for node in group for source in node.all_input_nodes)


def _users(node: Node) -> Iterator[Node]:
    """Yield the nodes that read a result, also one of several."""
    for user in node.users:
        if _taken_apart(user) is node:
            yield from user.users
        else:
            yield user


def _taken_apart(node: Node) -> Node:
    """Return the node of which this node is one of several results, or the node itself."""
    if getattr(node.target, "__name__", "") == "getitem" and isinstance(node.args[0], Node):
        return node.args[0]
    return node


def _call(node: Node) -> Node | None:
    """Return the call of a delegate that made a node; None for another node."""
    source = _taken_apart(node)
    return source if source.target is executorch_call_delegate else None


def _partition(module: torch.fx.GraphModule, call: Node) -> str:
    lowered: Any = call.args[0]
    return partition_of(getattr(module, lowered.target).processed_bytes) or lowered.target


def _bytes(node: Node) -> int:
    """Return the greatest number of bytes of a node's tensors; a size without a bound counts as one."""
    tensors = [value for value in values_of(node) if isinstance(value, torch.Tensor)]
    return sum(math.prod(map(_most, each.shape), start=each.element_size()) for each in tensors)


def _most(size: int | torch.SymInt) -> int:
    if isinstance(size, int):
        return size
    upper = bound_sympy(size.node.expr, size.node.shape_env.var_to_range).upper
    return 1 if upper is int_oo or not upper.is_finite else int(upper)
