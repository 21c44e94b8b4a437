"""Names of nodes for messages, and the exported program's node that each was made from."""

from __future__ import annotations

from typing import Any


def origin(node: Any) -> str | None:
    """Return the name of the exported program's node that a node was made from; None if unknown."""
    sources = node.meta.get("from_node")
    while sources and sources[0].from_node:  # each pass of decompositions adds its own nodes in front
        sources = sources[0].from_node
    return str(sources[0].name) if sources else None


def named(name: str, origin: str | None) -> str:
    """Return a node's description for messages. The rule adds its place in the source (model/source_places.py)."""
    return f"node {name} from {origin}" if origin else f"node {name}"
