"""Divide partitions that depend on each other.

ExecuTorch's grouping of dynamically quantized operators (GroupBasedPartitioner) may return two partitions that each
need a result of the other, so neither can be called first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from torch.fx.passes.infra.partitioner import Partition


def without_cycles(graph: Any, partitions: Sequence[Partition], groups: Sequence[Sequence[Any]]) -> list[Partition]:
    """Return the partitions of a graph, after dividing partitions that depend on each other. No group of nodes is
    divided.

    The parts of a partition are its nodes of equal level. A node's level is the number of times that a path from an
    input to the node leaves a partition to divide.
    """
    owners = {node: number for number, each in enumerate(partitions) for node in each.nodes}
    divided = _dependent(graph, owners)
    if not divided:
        return list(partitions)
    inside = {node: number for node, number in owners.items() if number in divided}
    levels = _levels(graph, inside, groups)
    made = [each for number, each in enumerate(partitions) if number not in divided]
    free = 1 + max(each.id or 0 for each in partitions)
    for number in sorted(divided):
        parts: dict[int, list[Any]] = defaultdict(list)
        for node in partitions[number].nodes:
            parts[levels[node]].append(node)
        for level in sorted(parts):
            made.append(Partition(free, parts[level]))
            free += 1
    return made


def _dependent(graph: Any, owners: Mapping[Any, int]) -> set[int]:
    """Return the partitions that remain after repeatedly removing partitions without inputs from, or outputs to, other
    partitions: the partitions in a circle of dependencies, and between two circles."""
    after: dict[Hashable, set[Hashable]] = defaultdict(set)
    for node in graph.nodes:
        if node.op == "placeholder":  # no call computes it, so a weight of a partition may have other users
            continue
        own = owners.get(node, node)
        after[own] |= {owners.get(user, user) for user in node.users} - {own}
    before: dict[Hashable, set[Hashable]] = defaultdict(set)
    for own, users in after.items():
        for user in users:
            before[user].add(own)
    left = set(after)
    for needed, needing in ((before, after), (after, before)):
        counts = {each: len(needed[each] & left) for each in left}
        free = [each for each in left if not counts[each]]
        while free:
            each = free.pop()
            left.discard(each)
            for other in needing[each] & left:
                counts[other] -= 1
                if not counts[other]:
                    free.append(other)
    return {each for each in left if isinstance(each, int)}


def _levels(graph: Any, inside: Mapping[Any, int], groups: Iterable[Sequence[Any]]) -> dict[Any, int]:
    """Return the level of each node of a graph. Nodes of a group have the same level."""
    together = {node: group for group in groups for node in group if node in inside}
    levels: dict[Any, int] = defaultdict(int)
    changed = True
    while changed:
        changed = False
        for node in graph.nodes:
            computed = (each for each in node.all_input_nodes if each.op != "placeholder")
            leaves = (levels[each] + _leaves(each, node, inside) for each in computed)
            found = max(leaves, default=0)
            for each in together.get(node, (node,)):
                if levels[each] < found:
                    levels[each] = found
                    changed = True
        if max(levels.values(), default=0) > len(levels):
            raise ValueError("a group of nodes depends on itself")
    return levels


def _leaves(node: Any, user: Any, inside: Mapping[Any, int]) -> int:
    return int(node in inside and inside.get(user) != inside[node])
