"""labels(attribute, x): the targets and files that an attribute of x names."""

from __future__ import annotations

from collections.abc import Collection

from modelbuild.query.world import World


def labels(world: World, attribute: str, nodes: Collection[str]) -> set[str]:
    return {named for node in nodes for named in world.labels(node, attribute)}
