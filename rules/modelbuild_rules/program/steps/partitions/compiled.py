"""What compiling a partition yields, and the folder that keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild_rules.program.steps.linking.named_data import write_named

PROCESSED = "processed.bin"

ABOUT = "about.json"
"""A file that a backend may write: facts of what it made (JSON) for delegation.json."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A delegate's blob, and its named data as (key, bytes, alignment, may lie outside the program, tensor layout)."""

    processed: bytes
    named: tuple[tuple[str, bytes, int, bool, Mapping[str, Any] | None], ...]

    def write(self, folder: Path) -> None:
        (folder / PROCESSED).write_bytes(self.processed)
        write_named(folder, self.named)
