"""The result of a build, and the facts known before the build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelbuild.build_record.stale_targets import BuiltTarget
from modelbuild.errors import ExitCode


@dataclass(frozen=True, slots=True)
class ExpectedTarget:
    """The facts about a target that are known before the build: its files' names, and the names of the inputs of each
    method when it is run. None is unknown."""

    label: str
    files: tuple[str, ...] | None
    inputs: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a build. `actions` is the number of actions that the outputs depend on."""

    targets: tuple[BuiltTarget, ...]
    code: ExitCode = ExitCode.OK
    actions: int = 0
    up_to_date: bool = False
