"""The one interface that the scheduler knows of whatever runs actions, here or elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from modelbuild.actions import Action, ActionResult, Digest, Place, StagedInput


@dataclass(frozen=True, slots=True)
class Request:
    """An action with its inputs known by content.

    tools    distributions that the step and its Python inputs may import, and what the key says of each
    local    files of the local modules that they may import, below LOCAL; each has its module's name
    preload  modules that a warm worker imports before it forks
    gpus     models of the GPUs that it sees, where it takes any (see gpus.py)
    modules  the step's own source closure, SHA-256 by import name: what it may load of modelbuild and of rule packages
    """

    action: Action
    inputs: tuple[StagedInput, ...]
    tools: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    local: tuple[StagedInput, ...] = ()
    preload: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `result` is None when it failed; `problem` then says why in one line (several lines for a
    traceback in the user's own code); `stdout` and `stderr` are kept either way. What is not to be found in a cache
    by a later build is not kept: `keep`. `place` is None for what ran here."""

    result: ActionResult | None
    problem: str = ""
    stdout: Digest | None = None
    stderr: Digest | None = None
    keep: bool = True
    place: Place | None = None


class Executor(Protocol):
    """Runs one action at a time for each calling thread."""

    def run(self, request: Request) -> Outcome:
        """Run an action to its end. Never raises for what the action does; a dead worker is an Outcome."""

    def close(self) -> None:
        """End every process that this executor started."""
