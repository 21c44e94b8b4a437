"""Check that listed private names of other packages exist."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Sequence
from typing import Any


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


def missing(name: str, attributes: Sequence[str]) -> list[str]:
    """Return those of some attributes that instances of a class, `module:Class`, have not."""
    module, _, path = name.partition(":")
    found: Any = getattr(importlib.import_module(module), path)
    texts = [_source(each) for each in found.__mro__]
    return [
        each
        for each in attributes
        if not hasattr(found, each) and not any(re.search(rf"self\.{each}\b", text) for text in texts)
    ]


def _source(found: type) -> str:
    try:
        return inspect.getsource(found)
    except (OSError, TypeError):  # not written in Python
        return ""
