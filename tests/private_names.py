"""Check that listed private names of other packages exist."""

from __future__ import annotations

import dataclasses
import importlib


def is_there(name: str) -> bool:
    """Return whether `module:attribute.attribute` can be imported; the last may be a field of a dataclass."""
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        if dataclasses.is_dataclass(found) and part in {field.name for field in dataclasses.fields(found)}:
            return True
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True
