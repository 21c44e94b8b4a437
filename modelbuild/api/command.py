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
    """`modelbuild NAME TARGET...` builds an output group of targets, despite failures. Any module of a rule package may
    define commands.

    help     one line
    about    further lines of `--help`
    group    returns the name of the group, given the values of the options by name
    show     returns the lines to print for a built target, given its label, the bytes of the group's files by name, and
             the values of the options; `json` is an option. May raise UsageError and BuildError. None: only progress
             and failures are printed
    after_build  the lines follow the report of the build, for each built target also if others failed; with --json or
             --quiet, they are not printed
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
        """The import name of the rule package that defines the command."""
        return self.group.__module__.partition(".")[0]
