"""Render nodes as labels, JSON or Graphviz."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

VERSION = 1

Needs: TypeAlias = Callable[[str], Collection[str]]


def render(nodes: Collection[str], form: str, needs: Needs, describe: Callable[[str], Mapping[str, Any]]) -> list[str]:
    """Return lines in one of three formats. Only edges between the nodes are included.

    label   one node per line, sorted
    json    one object: the version of this format, and the result of `describe` for each node
    dot     Graphviz
    """
    ordered = sorted(nodes)
    if form == "label":
        return ordered
    if form == "json":
        return [json.dumps({"version": VERSION, "nodes": [describe(node) for node in ordered]})]
    edges = [(node, needed) for node in ordered for needed in sorted(needs(node)) if needed in nodes]
    return [
        "digraph modelbuild {",
        "  node [shape=box];",
        *(f"  {_quoted(node)};" for node in ordered),
        *(f"  {_quoted(a)} -> {_quoted(b)};" for a, b in edges),
        "}",
    ]


def _quoted(text: str) -> str:
    """Return text as Graphviz quotes it: a label has other escapes than JSON."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
