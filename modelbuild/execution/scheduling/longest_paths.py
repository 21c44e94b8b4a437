"""The longest path from each action to the end of the build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx as nx

Estimates = Callable[[Iterable[str]], Mapping[str, float]]
"""Estimated seconds of actions, by id; 0 for nodes that are not actions."""


class LongestPaths:
    """Seconds from the start of each node to the end of the build, along the longest path of nodes that depend on it
    (critical-path scheduling: Graham, "Bounds on multiprocessing timing anomalies", 1969).

    The graph may grow: the cost of add() is proportional to the number of new nodes, and of older nodes with changed
    seconds.
    """

    def __init__(self, dag: nx.DiGraph[str], estimates: Estimates) -> None:
        self._dag = dag
        self._estimates = estimates
        self._own: dict[str, float] = {}
        self._left: dict[str, float] = {}

    def add(self, names: Iterable[str]) -> list[str]:
        """Add required nodes. Returns the new nodes, readers before makers."""
        import networkx as nx

        new = set(names) - self._left.keys()
        own = self._estimates(new)
        self._own.update((name, own.get(name, 0.0)) for name in new)
        readers_first = list(nx.topological_sort(self._dag.subgraph(new)))[::-1]
        for name in readers_first:
            self._left[name] = self._own[name] + self._after(name)
        changed = {maker for name in new for maker in self._dag.pred[name]} & self._left.keys()
        while changed:
            name = changed.pop()
            left = self._own[name] + self._after(name)
            if left > self._left[name]:
                self._left[name] = left
                changed |= self._dag.pred[name].keys() & self._left.keys()
        return readers_first

    def seconds(self, name: str) -> float:
        """Return the estimated seconds of a node itself."""
        return self._own[name]

    def __getitem__(self, name: str) -> float:
        return self._left[name]

    def _after(self, name: str) -> float:
        return max((self._left[reader] for reader in self._dag.succ[name] if reader in self._left), default=0.0)
