"""What happens during a build, as frozen events: all that those who show or record a build ever see of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from modelbuild.actions import Place

Status: TypeAlias = Literal["ran", "cached", "failed"]
TestStatus: TypeAlias = Literal["passed", "failed", "not_run"]

# Of a member that is no part of what is written down: there may be very many ids.
INSIDE = {"inside": True}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, and when: `at` is time.monotonic() in seconds."""

    at: float = field(default_factory=time.monotonic, kw_only=True)


@dataclass(frozen=True, slots=True)
class Loaded(Event):
    """The BUILD files of the `targets` asked for are loaded; analysis begins."""

    targets: int


@dataclass(frozen=True, slots=True)
class BuildStarted(Event):
    """Loading and analysis are done. `targets` are labels as shown, `total` the actions known so far, `actions` their
    ids."""

    targets: tuple[str, ...]
    total: int
    jobs: int = 1
    actions: tuple[str, ...] = field(default=(), repr=False, metadata=INSIDE)


@dataclass(frozen=True, slots=True)
class GraphGrew(Event):
    """An action that ended added others; `total` is the new number of actions, `actions` are the ids of all."""

    total: int
    actions: tuple[str, ...] = field(default=(), repr=False, metadata=INSIDE)


@dataclass(frozen=True, slots=True)
class ActionStarted(Event):
    """An action that no cache knows begins to run. `description` is one line without the owner, such as
    `compile p0 (xnnpack)`; `worker` numbers the slot that runs it, counted from 0."""

    id: str
    owner: str
    mnemonic: str
    description: str
    worker: int = 0


@dataclass(frozen=True, slots=True)
class CacheUsed(Event):
    """The caches were asked for an action's result, or given it; that took `seconds`, and has ended."""

    id: str
    kind: Literal["lookup", "store"]
    seconds: float


@dataclass(frozen=True, slots=True)
class ActionFinished(Event):
    """An action ended, or its result was found in a cache (then no ActionStarted came before).

    seconds   how long it ran; 0 when cached
    problem   why it failed: one line, or a traceback in the user's own code whose last line says it
    stdout    what it printed, decoded; only needed when it failed
    makers    ids of the actions that made what it read
    place     where it ran, unless here
    """

    id: str
    owner: str
    mnemonic: str
    description: str
    status: Status
    seconds: float = 0.0
    problem: str = ""
    stdout: str = ""
    stderr: str = ""
    key: str = ""
    worker: int = 0
    makers: tuple[str, ...] = ()
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class TargetBuilt(Event):
    """All of a target is there. `outputs` are paths as the user may type them; `config` names the configuration."""

    label: str
    config: str
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TestCase:
    """One case of a test. `message` says why it did not pass; `place` is `file:line`, where that is known."""

    name: str
    status: TestStatus
    seconds: float = 0.0
    message: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class TestFinished(Event):
    """A test target ended.

    status     not_run: what it needs is not on this machine; `reason` says what
    reason     why it did not pass, in one line
    cached     its result is that of an earlier run
    attempts   how often it ran, and how many of these runs `passed`; more than one where that was asked for
    location   where it is declared, as file:line:column
    measures   numbers by name, such as `latency_ms`
    output     what the run that did not pass printed
    """

    label: str
    config: str
    status: TestStatus
    reason: str = ""
    seconds: float = 0.0
    cached: bool = False
    attempts: int = 1
    passed: int = 0
    cases: tuple[TestCase, ...] = ()
    location: str = ""
    measures: Mapping[str, float] = field(default_factory=dict)
    output: str = ""


@dataclass(frozen=True, slots=True)
class TargetFailed(Event):
    """A target could not be built: `because` names the action that failed."""

    label: str
    config: str
    because: str


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something the user should know that is no failure, in one line."""

    text: str


@dataclass(frozen=True, slots=True)
class UploadsAwaited(Event):
    """All else is done, and the end waits for `results` that are on their way to the remote cache. Told every second;
    `bytes` are those of their blobs that are not there yet, as far as that is known."""

    results: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BuildFinished(Event):
    """The end, good or bad. `seconds` counts from the start of the command.

    up_to_date   nothing had to be looked up or run: the tree is as the last build left it; `actions` says how many
                 actions that stands for, since none of them was reported on its own
    """

    seconds: float
    up_to_date: bool = False
    actions: int = 0


@dataclass(frozen=True, slots=True)
class BuildAborted(Event):
    """The build came to no end: something was wrong that is no action's failure (the caller says it on stderr), or it
    was interrupted by Ctrl-C or a signal."""

    problem: str
    interrupted: bool = False


class Reporter(Protocol):
    """Takes events, from any thread. Must not raise: a build does not fail because nobody can watch it."""

    def emit(self, event: Event) -> None:
        """Show or record an event."""

    def close(self) -> None:
        """Leave the terminal as it was. Safe to call twice, and when the build ended by an exception."""
