"""Checks of this machine for `modelbuild doctor`, from the engine and from rule packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. `text` and `fix`, what to do about a problem, are one line each."""

    name: str
    status: Status
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """A check of this machine. Any module of a rule package may define probes.

    check  returns the finding, in a second or two; an exception is a finding of status error
    """

    name: str
    check: Callable[[], Finding]

    @property
    def package(self) -> str:
        """The import name of the rule package that defines the probe."""
        return self.check.__module__.partition(".")[0]
