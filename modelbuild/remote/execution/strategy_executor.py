"""An executor that runs each kind of action in its places: here, on remote workers, or one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from modelbuild.actions import Action
from modelbuild.execution.executor import ActionRequest, Executor, Outcome, RunHere
from modelbuild.remote.cache.circuit_breaker import CircuitBreaker, CircuitOpen
from modelbuild.remote.execution.executor import RemoteExecutor
from modelbuild.remote.problems import RemoteProblem
from modelbuild.workspace.remote_settings import DEFAULT_PLACES, Strategy


class StrategyExecutor:
    """An Executor that tries places in order. Actions that use the network run here, unless their kind itself has a
    strategy, because few workers can reach external servers.

    report   called once when the remote does not work, and once for each mismatch of a worker's toolchain
    """

    def __init__(
        self, local: Executor, remote: RemoteExecutor, name: str, strategy: Strategy, report: Callable[[str], None]
    ) -> None:
        self._local = local
        self._remote = remote
        self._name = name
        self._strategy: Mapping[str, tuple[str, ...]] = dict(strategy)
        self._report = report
        self._reported: set[str] = set()
        self._refused: set[str] = set()  # actions that no worker ran
        self._lock = threading.Lock()
        self._guard = CircuitBreaker(lambda why: None)

    def runs_here(self, action: Action) -> bool:
        """Return whether an action runs on this machine, as far as known."""
        return action.id in self._refused or self._places(action)[0] == "local"

    def run(self, request: ActionRequest) -> Outcome:
        action = request.action
        if self.runs_here(action):
            return self._local.run(request)
        try:
            return self._guard.call(lambda: self._remote.run(request))
        except CircuitOpen:
            problem = f"remote executor {self._name} is paused after failures"
        except RemoteProblem as error:
            problem = f"remote executor {self._name}: {error}"
            if "local" in self._places(action):
                self._report_once(f"{problem}; running it here")
        if "local" not in self._places(action):
            return Outcome(None, problem)
        self._refused.add(action.id)
        raise RunHere

    def _places(self, action: Action) -> tuple[str, ...]:
        others = ("local",) if action.network or action.device is not None else self._strategy.get("*", DEFAULT_PLACES)
        return self._strategy.get(action.mnemonic, others)

    def close(self) -> None:
        self._remote.close()
        self._local.close()

    def _report_once(self, text: str) -> None:
        with self._lock:
            fresh = text not in self._reported and len(self._reported) < 5
            self._reported.add(text)
        if fresh:
            self._report(text)
