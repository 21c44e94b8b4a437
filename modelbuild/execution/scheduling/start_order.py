"""The order in which the scheduler starts actions: program by program, and in each the longest remaining path first."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from modelbuild.execution.scheduling.longest_paths import Estimates, LongestPaths

if TYPE_CHECKING:
    import networkx as nx


FIRST = (-1, 0.0)


class StartOrder:
    """Keys of required nodes; the scheduler starts the action with the least key. An action that has already run has
    the first key: it runs again because another action waits for it.

    A program here is a node that nothing else requires: the last node of a requested target. Programs that have begun
    come first, then programs with the longest path. A node that several programs require belongs to the first of them.
    """

    def __init__(
        self, dag: nx.DiGraph[str], estimates: Estimates, names: Iterable[str], begun: Collection[str]
    ) -> None:
        """`begun` are the actions that have started to run."""
        self._dag = dag
        self._paths = LongestPaths(dag, estimates)
        self._ranks: dict[str, int] = {}
        readers_first = self._paths.add(names)
        self._rank(readers_first, self._programs(readers_first, begun))

    def add(self, names: Iterable[str]) -> None:
        """Add nodes of an expansion; its readers are known."""
        self._rank(self._paths.add(names), [])

    def __getitem__(self, name: str) -> tuple[int, float]:
        return (self._ranks[name], -self._paths[name]) if name in self._ranks else FIRST

    def _programs(self, readers_first: list[str], begun: Collection[str]) -> list[str]:
        """Return the programs in order."""
        known = set(readers_first)
        seconds: dict[str, float] = {}  # along the longest path to a node's end
        running: set[str] = set()
        for name in reversed(readers_first):
            makers = self._dag.pred[name]
            seconds[name] = self._paths.seconds(name) + max((seconds.get(maker, 0.0) for maker in makers), default=0.0)
            if name in begun or any(maker in begun or maker in running for maker in makers):
                running.add(name)
        last = [name for name in known if known.isdisjoint(self._dag.succ[name])]
        return sorted(last, key=lambda name: (name not in running, -seconds[name], name))

    def _rank(self, readers_first: Iterable[str], programs: Iterable[str]) -> None:
        self._ranks |= {name: rank for rank, name in enumerate(programs)}
        for name in readers_first:
            if name not in self._ranks:
                readers = (self._ranks[reader] for reader in self._dag.succ[name] if reader in self._ranks)
                self._ranks[name] = min(readers, default=len(self._ranks))
