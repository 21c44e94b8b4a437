"""The options before a command's name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """The options before the command's name, and all `arguments`. `directory` is the current folder of the command."""

    directory: Path
    arguments: tuple[str, ...] = ()
