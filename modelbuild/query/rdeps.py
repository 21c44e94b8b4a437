"""rdeps(universe, x, depth): what needs x among the universe and all that it needs, x itself included."""

from __future__ import annotations

from collections.abc import Collection

from modelbuild.query.world import World, closure


def rdeps(world: World, universe: Collection[str], nodes: Collection[str], depth: int | None = None) -> set[str]:
    """At most `depth` edges away where it is given."""
    graph = closure(world, universe)
    found = layer = {node for node in nodes if node in graph}
    while layer and depth != 0:
        depth = None if depth is None else depth - 1
        layer = {user for node in layer for user in graph.predecessors(node)} - found
        found = found | layer
    return found
