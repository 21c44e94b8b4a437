"""What a build is asked for, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modelbuild.errors import ExitCode


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line says. None means: as MODELBUILD.toml says.

    directory  the folder the command runs in; relative patterns start from it
    patterns   target patterns as typed
    devices    labels of device targets; several make one build for each, none leaves it to targets and workspace
    """

    directory: Path
    patterns: tuple[str, ...]
    devices: tuple[str, ...] = ()
    jobs: int | None = None
    keep_going: bool | None = None
    profile: str | None = None
    sandbox_debug: bool = False


@dataclass(frozen=True, slots=True)
class BuiltTarget:
    """A target that was asked for and its outputs, relative to the workspace."""

    label: str
    config: str
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """How a build ended. `actions` counts what the outputs stand on."""

    root: Path
    targets: tuple[BuiltTarget, ...]
    code: ExitCode = ExitCode.OK
    actions: int = 0
    up_to_date: bool = False
