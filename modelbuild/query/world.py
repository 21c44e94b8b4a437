"""The graph that expressions select from: targets and files, with an edge from each target to what it depends on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import networkx as nx

SOURCE = "source file"


class World(Protocol):
    """A graph that is read as far as it is asked for. Nodes are texts, such as `//models:detector`."""

    def find(self, pattern: str) -> list[str]:
        """The nodes that a target pattern means. Raises UsageError when it means none."""

    def needs(self, node: str) -> Collection[str]:
        """The nodes that a node depends on directly."""

    def kind(self, node: str) -> str:
        """`filegroup rule`, or `source file`."""

    def label(self, node: str) -> str:
        """The label of a node, without its configuration."""

    def attributes(self, node: str) -> list[Mapping[str, Any]]:
        """Values that a target's attributes can have: one table for each configuration that they may be read in."""

    def labels(self, node: str, attribute: str) -> Collection[str]:
        """The nodes that an attribute names."""

    def members(self, package: str) -> list[str]:
        """Every target of a package."""

    def build_files(self, package: str) -> list[str]:
        """The files that say what the targets of a package are."""

    def location(self, node: str) -> str:
        """`models/BUILD.toml:4:1`; of a source file its path."""


def closure(world: World, nodes: Collection[str], depth: int | None = None) -> nx.DiGraph[str]:
    """The graph of nodes and all that they need, at most `depth` edges away."""
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
    """`models` of `//models:detector`."""
    return label.removeprefix("//").partition(":")[0]
