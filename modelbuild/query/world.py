"""The graph for expressions: targets and files, with an edge from each target to each of its dependencies."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import networkx as nx

SOURCE = "source file"


class World(Protocol):
    """A graph that is loaded on demand. Nodes are strings such as `//models:detector`."""

    def find(self, pattern: str) -> list[str]:
        """Return the nodes that match a target pattern. Raises UsageError if there are none."""

    def needs(self, node: str) -> Collection[str]:
        """Return the nodes that a node depends on directly."""

    def kind(self, node: str) -> str:
        """Return `filegroup rule`, or `source file`."""

    def label(self, node: str) -> str:
        """Return the label of a node, without its configuration."""

    def attributes(self, node: str) -> list[Mapping[str, Any]]:
        """Return the possible values of a target's attributes: one table for each possible configuration."""

    def labels(self, node: str, attribute: str) -> Collection[str]:
        """Return the nodes that an attribute names."""

    def build_files(self, package: str) -> list[str]:
        """Return the files that declare the targets of a package."""

    def location(self, node: str) -> str:
        """Return `models/BUILD.toml:4:1`, or the path of a source file."""


def closure(world: World, nodes: Collection[str], depth: int | None = None) -> nx.DiGraph[str]:
    """Return the graph of the nodes and their dependencies, at most `depth` edges away."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    layer = list(nodes)
    while layer and depth != 0:
        depth = None if depth is None else depth - 1
        found: dict[str, None] = {}
        for node in layer:
            for needed in world.needs(node):
                if needed not in graph:
                    found[needed] = None
                graph.add_edge(node, needed)
        layer = list(found)
    return graph


def package_of(label: str) -> str:
    """Return the package of a label: `models` for `//models:detector`."""
    return label.removeprefix("//").partition(":")[0]
