"""Commands of rule packages: each builds an output group of targets, and may print its contents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command, `--NAME VALUE`: text, or an integer of at least 0, as `default` is."""

    name: str
    help: str
    default: str | int = ""
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """`modelbuild NAME TARGET...`: builds an output group of targets, despite failures.

    help     one line
    about    further lines of `--help`
    group    returns the group's name, given the options' values by name
    show     returns the lines to print for a built target, given its label, the bytes of the group's files by name, and
             the options' values (also `json`). May raise UsageError and BuildError. None: prints only progress and
             failures
    after_build  true: the lines follow the report of the build, also if other targets failed, but not with --json or
             --quiet
    """

    name: str
    help: str
    about: str
    group: Callable[[Mapping[str, Any]], str]
    options: tuple[Option, ...] = ()
    show: Callable[[str, Mapping[str, bytes], Mapping[str, Any]], Iterable[str]] | None = None
    after_build: bool = False

    @property
    def package(self) -> str:
        """The import name of its rule package."""
        return self.group.__module__.partition(".")[0]
