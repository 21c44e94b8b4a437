"""How answers are shown: labels, JSON, edges, or Graphviz."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

VERSION = 1

Needs: TypeAlias = Callable[[str], Collection[str]]


def render(nodes: Collection[str], form: str, needs: Needs, describe: Callable[[str], Mapping[str, Any]]) -> list[str]:
    """Lines, in one of four forms. Edges are those between the nodes themselves.

    label   one node a line, sorted
    json    one object: the version of this format, and what `describe` says of each node
    graph   one edge a line, `from` TAB `to`; a node without edges alone on its line
    dot     Graphviz
    """
    ordered = sorted(nodes)
    if form == "label":
        return ordered
    if form == "json":
        return [json.dumps({"version": VERSION, "nodes": [describe(node) for node in ordered]})]
    edges = [(node, needed) for node in ordered for needed in sorted(needs(node)) if needed in nodes]
    alone = [node for node in ordered if not any(node in edge for edge in edges)]
    if form == "graph":
        return [*(f"{a}\t{b}" for a, b in edges), *alone]
    return [
        "digraph modelbuild {",
        "  node [shape=box];",
        *(f"  {json.dumps(node)};" for node in ordered),
        *(f"  {json.dumps(a)} -> {json.dumps(b)};" for a, b in edges),
        "}",
    ]
