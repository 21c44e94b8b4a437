"""attr(name, regex, x): targets with an attribute whose value matches."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from modelbuild.query.pattern import compiled
from modelbuild.query.world import World


def attr(world: World, name: str, pattern: str, nodes: Collection[str]) -> set[str]:
    """Values are matched as text (see `as_text`), anywhere in it; an attribute that is not written has its default.
    Where a select stands, each value that it can have is matched."""
    regex = compiled(pattern)
    return {
        node
        for node in nodes
        if any(name in table and regex.search(as_text(table[name])) for table in world.attributes(node))
    }


def as_text(value: Any) -> str:
    """`true`, `3`, `text`, `[a, b]`, `{name = text}`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {as_text(item)}" for key, item in value.items()) + "}"
    return str(value)
