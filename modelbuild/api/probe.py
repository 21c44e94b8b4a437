"""Checks for `modelbuild doctor`, from the engine and rule packages: of this machine, and of runtimes on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. `text`, and `fix`, the advice for a problem, are one line each."""

    name: str
    status: Status
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """A check of this machine.

    check  returns the finding, in a second or two; an exception is an error
    """

    name: str
    check: Callable[[], Finding]

    @property
    def package(self) -> str:
        """The import name of its rule package."""
        return self.check.__module__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class DeviceRuntime:
    """A runtime that `modelbuild doctor --on` starts on a device.

    find     returns the folder with the runtime for an architecture, or raises LookupError with the reason in one line
    files    returns the program and the files that it needs, relative to that folder
    program  the program among them; with `--help` it loads its libraries and ends with exit status 0
    """

    name: str
    find: Callable[[str], Path]
    files: Callable[[Path], Sequence[str]]
    program: str

    @property
    def package(self) -> str:
        """The import name of its rule package."""
        return self.find.__module__.partition(".")[0]
