"""deps(x, depth): what x needs, x itself included."""

from __future__ import annotations

from collections.abc import Collection

from modelbuild.query.world import World, closure


def deps(world: World, nodes: Collection[str], depth: int | None = None) -> set[str]:
    """At most `depth` edges away where it is given."""
    return set(closure(world, nodes, depth))
