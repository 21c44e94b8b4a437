"""Events of a build, as frozen dataclasses: the only input of reporters and recorders."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from modelbuild.actions import Place

Status: TypeAlias = Literal["ran", "cached", "failed"]
TestStatus: TypeAlias = Literal["passed", "failed", "not_run"]

# Marks a field that is not written to files.
INSIDE = {"inside": True}


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events. `at` is time.monotonic() in seconds."""

    at: float = field(default_factory=time.monotonic, kw_only=True)


@dataclass(frozen=True, slots=True)
class Loaded(Event):
    """The BUILD files of the `targets` requested targets are loaded; analysis begins."""

    targets: int


@dataclass(frozen=True, slots=True)
class BuildStarted(Event):
    """Loading and analysis are done. `targets` are printed labels, `total` is the number of known actions."""

    targets: tuple[str, ...]
    total: int
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Planned(Event):
    """The targets, each a label and a configuration, that a build without --no-build would build. `actions` is the
    number of actions that they depend on, of which `cached` are in the local cache. `grows`: running actions will add
    further actions."""

    targets: tuple[tuple[str, str], ...]
    actions: int
    cached: int
    grows: bool = False


@dataclass(frozen=True, slots=True)
class GraphGrew(Event):
    """A finished action added actions to the graph; `total` is the new number of actions."""

    total: int


@dataclass(frozen=True, slots=True)
class ActionStarted(Event):
    """An action that is in no cache starts. `description` is one line without the owner, such as `compile p0
    (xnnpack)`; `worker` numbers the slot that runs it, counted from 0."""

    id: str
    owner: str
    mnemonic: str
    description: str
    worker: int = 0


@dataclass(frozen=True, slots=True)
class ActionProgress(Event):
    """An action that runs here has begun another part of its work: `part` is one short line, such as `kernel 4 of 17`.
    At most a few events a second for each action; none after its ActionFinished. '': the part has ended. `waiting`: the
    part is a wait, for a worker or for another build that runs the action."""

    id: str
    part: str
    waiting: bool = field(default=False, metadata=INSIDE)


@dataclass(frozen=True, slots=True)
class WorkerReady(Event):
    """A process that runs actions has imported `modules`, `seconds` after it was started. Actions waited for it."""

    modules: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class CacheUsed(Event):
    """A lookup in the caches, or storing a result in them, has ended after `seconds`."""

    id: str
    kind: Literal["lookup", "store"]
    seconds: float


@dataclass(frozen=True, slots=True)
class ActionFinished(Event):
    """An action ended, or its result was found in a cache (then there was no ActionStarted).

    seconds   duration of the run; 0 when cached
    problem   reason for the failure: one line, or a traceback in the user's own code with the reason in its last line
    stdout    printed text, decoded; only needed when the action failed
    makers    ids of the actions that made its inputs
    place     the remote worker; None for a local run
    saved     seconds of the earlier run whose result was found in a cache
    fetched   the result was found in a remote cache
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
    saved: float = 0.0
    fetched: bool = False


@dataclass(frozen=True, slots=True)
class TargetBuilt(Event):
    """A target's outputs are in the output tree. `outputs` are paths as the user may type them; `config` names the
    configuration."""

    label: str
    config: str
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TestCase:
    """One case of a test. `message` is the reason why it did not pass; `place` is `file:line`, if known."""

    name: str
    status: TestStatus
    seconds: float = 0.0
    message: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class TestFinished(Event):
    """A test target ended.

    status     not_run: this machine lacks a requirement, named in `reason`
    reason     why it did not pass, in one line
    cached     the result is from an earlier run
    attempts   number of runs (more than one only on request), of which `passed` passed
    location   where it is declared, as file:line:column
    measures   numbers by name, such as `latency_ms`
    output     printed text of the run that did not pass, or on request of any run
    device     label of the device that the program ran on; '' for this machine
    identity   the facts that the device reported about itself
    shown      whether `output` is printed with the result
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
    device: str = ""
    identity: Mapping[str, str] = field(default_factory=dict)
    shown: bool = field(default=True, metadata=INSIDE)


@dataclass(frozen=True, slots=True)
class TargetFailed(Event):
    """A target could not be built; `because` names the failed action."""

    label: str
    config: str
    because: str


@dataclass(frozen=True, slots=True)
class TargetSkipped(Event):
    """A requested target, or all targets of a package, can't be loaded or analysed; other targets are built. `problem`
    is one line, and `location` its place in a file as `path:line:column`; many targets may have the same problem."""

    label: str
    problem: str
    location: str


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """One line for the user that is not a failure."""

    text: str


@dataclass(frozen=True, slots=True)
class UploadsAwaited(Event):
    """Everything else is done, and the build waits for uploads of `results` results to the remote cache. Emitted every
    second; `bytes` is the size of the blobs still to be sent, as far as known."""

    results: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BuildFinished(Event):
    """The build has ended. `seconds` counts from the start of the command.

    up_to_date   no action was looked up or run, because nothing changed since the last build; `actions` is that build's
                 number of actions, which are not reported
    exit         the exit code of the command
    """

    seconds: float
    up_to_date: bool = False
    actions: int = 0
    exit: int = 0


@dataclass(frozen=True, slots=True)
class BuildAborted(Event):
    """The build stopped without a result: it was interrupted by Ctrl-C or a signal, or hit a problem that is no
    action's failure (the caller prints it on stderr). `exit` is the exit code of the command."""

    problem: str
    interrupted: bool = False
    exit: int = 0


class Reporter(Protocol):
    """Receives events. Must not raise: a failing display must not fail the build."""

    def emit(self, event: Event) -> None:
        """Show or record an event."""

    def close(self) -> None:
        """Restore the terminal, or write a file: called once, at the end, also after an exception."""


class Silent:
    """A reporter that ignores all events."""

    def emit(self, event: Event) -> None:
        """Ignore the event."""

    def close(self) -> None:
        """Do nothing."""
