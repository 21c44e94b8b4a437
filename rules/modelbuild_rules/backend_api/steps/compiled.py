"""A compiled partition."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modelbuild_rules.backend_api.steps.named_data import NamedBytes, write_named

PROCESSED = "processed.bin"

ABOUT = "about.json"
"""An optional file of a backend: facts about the compiled partition (JSON) for delegation.json."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A delegate's blob, and its named data."""

    processed: bytes
    named: tuple[NamedBytes, ...]

    def write(self, folder: Path) -> None:
        (folder / PROCESSED).write_bytes(self.processed)
        write_named(folder, self.named)
