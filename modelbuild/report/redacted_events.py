"""A reporter that removes secrets from the texts of events."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from modelbuild.events import Event, Reporter
from modelbuild.redaction import without_secrets


class RedactedEvents:
    """Passes events on, without users, passwords and queries in addresses."""

    def __init__(self, inner: Reporter) -> None:
        self._inner = inner

    def emit(self, event: Event) -> None:
        self._inner.emit(_without_secrets(event))

    def close(self) -> None:
        self._inner.close()


def _without_secrets(value: Any) -> Any:
    """Return a value itself if nothing changes."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, tuple):
        inner = tuple(map(_without_secrets, value))
        return value if inner == value else inner
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        changed = {name: new for name, part in parts.items() if (new := _without_secrets(part)) is not part}
        return replace(value, **changed) if changed else value
    return value
