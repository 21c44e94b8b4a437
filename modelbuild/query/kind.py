"""kind(regex, x): those of a kind, such as `pte_program rule` or `source file`."""

from __future__ import annotations

from collections.abc import Collection

from modelbuild.query.pattern import compiled
from modelbuild.query.world import World


def kind(world: World, pattern: str, nodes: Collection[str]) -> set[str]:
    """The pattern may match anywhere in the kind."""
    regex = compiled(pattern)
    return {node for node in nodes if regex.search(world.kind(node))}
