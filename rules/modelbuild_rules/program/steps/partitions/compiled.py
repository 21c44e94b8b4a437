"""A compiled partition, and its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild_rules.program.steps.linking.named_data import write_named

PROCESSED = "processed.bin"

ABOUT = "about.json"
"""An optional file of a backend: facts about the compiled partition (JSON) for delegation.json."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A delegate's blob, and its named data as (key, bytes, alignment, may be outside the program, tensor layout)."""

    processed: bytes
    named: tuple[tuple[str, bytes, int, bool, Mapping[str, Any] | None], ...]

    def write(self, folder: Path) -> None:
        (folder / PROCESSED).write_bytes(self.processed)
        write_named(folder, self.named)
