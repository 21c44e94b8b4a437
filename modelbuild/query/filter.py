"""filter(regex, x): those whose label matches."""

from __future__ import annotations

from collections.abc import Collection

from modelbuild.query.pattern import compiled
from modelbuild.query.world import World


def filter_labels(world: World, pattern: str, nodes: Collection[str]) -> set[str]:
    """The pattern may match anywhere in the label."""
    regex = compiled(pattern)
    return {node for node in nodes if regex.search(world.label(node))}
