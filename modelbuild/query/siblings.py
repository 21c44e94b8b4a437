"""siblings(x): every target of the packages that x is in."""

from __future__ import annotations

from collections.abc import Collection

from modelbuild.query.world import World, package_of


def siblings(world: World, nodes: Collection[str]) -> set[str]:
    packages = {package_of(world.label(node)) for node in nodes}
    return {member for package in packages for member in world.members(package)}
