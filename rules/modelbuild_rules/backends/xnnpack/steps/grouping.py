"""Merge groups of nodes into partitions, without the time that ExecuTorch's grouping takes for large programs.

ExecuTorch's GroupBasedPartitioner tries each pair of groups, and follows the users of all their nodes each time. With
sets of nodes as bits of an integer, four operations give the same answer.

Private names of executorch are patched temporarily; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from executorch.exir.backend.canonical_partitioners import group_partitioner


@contextmanager
def merged_quickly() -> Iterator[None]:
    """Decide faster which groups of nodes can be merged, while the context lasts. The partitions are the same."""
    merge = group_partitioner.GroupBasedPartitioner._can_merge_partitions

    def can_merge(partitioner: Any, one: int, other: int, partitions: Any) -> bool:
        bits = partitioner.dependency_viewer
        if not isinstance(bits, _Bits):
            return bool(merge(partitioner, one, other, partitions))
        return bits.can_merge(*((number, partitions[number].nodes) for number in (one, other)))

    with (
        patch.object(group_partitioner, "_DependencyViewer", _Bits),
        patch.object(group_partitioner.GroupBasedPartitioner, "_can_merge_partitions", can_merge),
    ):
        yield


class _Bits:
    """The nodes of a graph as bits. A node's set has the bits of its nodes, their users and all nodes before."""

    def __init__(self, module: Any) -> None:
        self._nodes: dict[Any, tuple[int, int, int]] = {}
        self._sets: dict[int, tuple[int, int, int, int]] = {}
        places = {node: 1 << place for place, node in enumerate(module.graph.nodes)}
        for node, bit in places.items():
            before = users = 0
            for source in node.all_input_nodes:
                before |= places[source] | self._nodes[source][2]
            for user in node.users:
                users |= places[user]
            self._nodes[node] = bit, users, before

    def can_merge(self, one: tuple[int, Collection[Any]], other: tuple[int, Collection[Any]]) -> bool:
        """Return whether no path leaves the nodes of two partitions, given with their numbers, and returns to them."""
        (nodes, users, before), (more, others, earlier) = self._of(*one), self._of(*other)
        return not (users | others) & (before | earlier) & ~(nodes | more)

    def _of(self, number: int, given: Collection[Any]) -> tuple[int, int, int]:
        count, nodes, users, before = self._sets.get(number, (0, 0, 0, 0))
        if count != len(given):  # a partition only grows
            nodes = users = before = 0
            for each in given:
                own, used, earlier = self._nodes[each]
                nodes, users, before = nodes | own, users | used, before | earlier
            self._sets[number] = len(given), nodes, users, before
        return nodes, users, before
