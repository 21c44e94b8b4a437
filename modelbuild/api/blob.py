"""A delegate's blob, as `modelbuild inspect` reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Blob:
    """The return value of a backend's `describe(path, offset, size)` for a delegate's blob in a file.

    summary   a description in one line
    inputs    a line for each argument of the delegate that is no constant, such as "x float32[1, 16]", else none is
              printed. `outputs` likewise
    facts     other facts, as JSON values, for `modelbuild inspect --json`
    """

    summary: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
