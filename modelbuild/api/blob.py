"""A delegate's blob, as `modelbuild inspect` reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Blob:
    """What a backend's module returns from `describe(path, offset, size)` for the blob at a place in a file.

    summary          one line
    inputs, outputs  names of the delegate's arguments, in their order; () where the blob does not name them
    facts            JSON values by name
    """

    summary: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
