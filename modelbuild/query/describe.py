"""The JSON description of a target or file."""

from __future__ import annotations

from typing import Any

from modelbuild.query.configured_world import ConfiguredWorld
from modelbuild.query.target_world import TargetWorld, engine_attributes
from modelbuild.query.world import SOURCE
from modelbuild.redaction import redacted


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
