"""The interface between the scheduler and executors, which run actions locally or remotely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from modelbuild.actions import Action, ActionResult, Digest, Place, StagedInput
from modelbuild.code.interpreter import Interpreter, installed
from modelbuild.execution.time_limit import TimeLimit
from modelbuild.paths import OUTPUTS

if TYPE_CHECKING:
    from modelbuild.execution.orders import StepOrder


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An action with everything that its key and an executor use. Of the fields, a key contains the contents of the
    inputs, `tools`, `code`, `keyed_local`, `gpus`, `device` and the version of `python` (see keys.py).

    code     SHA-256 of the step's source closure
    tools    distributions that the step and its Python inputs may import, with their texts in the key
    local    files of the local modules that they may import, below LOCAL; each input's name is its module
    keyed_local  the local files in the key, which no state of a distribution in `tools` contains
    beside   distributions in `tools` that the toolchain lacks: their packages are among the local modules
    preload  modules that a warm worker imports before it forks
    gpus     models of the GPUs that it sees, if it uses any (see gpus.py)
    device   the identity of the device on which a part of it runs; empty if there is none
    limit    the time that it may run, if there is a limit
    python   the Python that it runs in
    modules  the step's source closure, SHA-256 by import name: the modules of modelbuild and rule packages it may load
    """

    action: Action
    inputs: tuple[StagedInput, ...]
    tools: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    local: tuple[StagedInput, ...] = ()
    preload: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    device: Mapping[str, str] = field(default_factory=dict)
    limit: TimeLimit | None = None
    python: Interpreter = field(default_factory=installed)
    beside: tuple[str, ...] = ()
    code: str = ""
    keyed_local: tuple[StagedInput, ...] = ()


def step_order(request: ActionRequest) -> StepOrder:
    """Return the part of a worker's order that all executors share."""
    action = request.action
    inputs: dict[str, list[str]] = {}
    for item in request.inputs:
        inputs.setdefault(item.name, []).append(item.path)
    return {
        "step": action.step,
        "params": {**action.params, **action.unkeyed},
        "inputs": inputs,
        "outputs": {output.name: f"{OUTPUTS}/{output.path}" for output in action.outputs},
        "cpus": action.resources.cpu,
        "network": action.network,
        "gpu": bool(action.resources.gpu),
        "modules": dict(request.modules),
        "distributions": sorted(request.tools),
        "local": bool(request.local),
        "env": dict(action.env),
    }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run. `result` is None after a failure; `problem` is then the reason in one line (several lines for a
    traceback in the user's code). `stdout` and `stderr` are always set. If `keep` is false, the result is not cached
    for later builds. `place` is None for actions that ran here. `found`: another build
    ran the action meanwhile."""

    result: ActionResult | None
    problem: str = ""
    stdout: Digest | None = None
    stderr: Digest | None = None
    keep: bool = True
    place: Place | None = None
    found: bool = False


class RunHere(Exception):
    """No remote worker ran an action, which shall run on this machine."""


class Executor(Protocol):
    """Runs one action at a time for each calling thread."""

    def run(self, request: ActionRequest) -> Outcome:
        """Run an action to its end. The action's failure, or a worker's death, is an Outcome, not an exception. Raises
        RunHere."""

    def close(self) -> None:
        """End all processes that this executor started."""
