"""Describe nodes in JSON, and render them as labels, JSON or Graphviz."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from modelbuild.query.configured_world import ConfiguredWorld
from modelbuild.query.target_world import TargetWorld, engine_attributes
from modelbuild.query.world import SOURCE
from modelbuild.redaction import redacted

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


def describe_declared(world: TargetWorld, node: str) -> dict[str, Any]:
    """Return a target's description with its attributes as written, including selects."""
    facts = _common(world, node)
    target = world.packages.target(node)
    if target is None:
        return facts
    return {**facts, "attributes": redacted({**target.attributes, **engine_attributes(target)})}


def describe_configured(world: ConfiguredWorld, node: str) -> dict[str, Any]:
    """Return a target's description with its attributes for its device, including defaults."""
    facts = _common(world, node)
    target = world.configured(node)
    if target is None:
        return facts
    device = str(target.device) if target.device else None
    return {**facts, "device": device, "attributes": redacted(world.attributes(node)[0])}


def _common(world: TargetWorld | ConfiguredWorld, node: str) -> dict[str, Any]:
    kind = world.kind(node)
    facts: dict[str, Any] = {"label": world.label(node), "location": world.location(node)}
    if kind == SOURCE:
        return {**facts, "kind": "source"}
    return {**facts, "kind": "rule", "rule": kind.partition(" ")[0], "needs": sorted(world.needs(node))}
