"""somepath(x, y): one shortest path by which x needs y."""

from __future__ import annotations

from collections.abc import Collection

import networkx as nx

from modelbuild.query.world import World, closure


def somepath(world: World, starts: Collection[str], ends: Collection[str]) -> set[str]:
    """The nodes on a path; none where there is no path. Of equally short ones always the same."""
    graph = closure(world, sorted(starts))
    best: list[str] = []
    for start in sorted(starts):
        for end in sorted(end for end in ends if end in graph):
            if nx.has_path(graph, start, end):
                found = nx.shortest_path(graph, start, end)
                best = found if not best or len(found) < len(best) else best
    return set(best)
