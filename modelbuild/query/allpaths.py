"""allpaths(x, y): everything on any path by which x needs y."""

from __future__ import annotations

from collections.abc import Collection

from modelbuild.query.rdeps import rdeps
from modelbuild.query.world import World


def allpaths(world: World, starts: Collection[str], ends: Collection[str]) -> set[str]:
    """What of all that the starts need, needs one of the ends."""
    return rdeps(world, starts, ends)
