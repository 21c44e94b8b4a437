"""buildfiles(x): the files that say what the targets x are: BUILD.toml, MODELBUILD.toml, the workspace's own rules."""

from __future__ import annotations

from collections.abc import Collection

from modelbuild.query.world import World, package_of


def buildfiles(world: World, nodes: Collection[str]) -> set[str]:
    packages = {package_of(world.label(node)) for node in nodes}
    return {file for package in packages for file in world.build_files(package)}
