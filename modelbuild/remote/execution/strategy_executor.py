"""An executor that runs each kind of action in its places: here, on remote workers, or one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from modelbuild.execution.executor import ActionRequest, Executor, Outcome
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
        self._lock = threading.Lock()
        self._guard = CircuitBreaker(lambda why: None)

    def run(self, request: ActionRequest) -> Outcome:
        action = request.action
        others = ("local",) if action.network or action.device is not None else self._strategy.get("*", DEFAULT_PLACES)
        places = self._strategy.get(action.mnemonic, others)
        problem = ""
        for place in places:
            if place == "local":
                return self._local.run(request)
            try:
                return self._guard.call(lambda: self._remote.run(request))
            except CircuitOpen:
                problem = problem or f"remote executor {self._name} is paused after failures"
            except RemoteProblem as error:
                problem = f"remote executor {self._name}: {error}"
                if "local" in places:
                    self._report_once(f"{problem}; running it here")
        return Outcome(None, problem)

    def close(self) -> None:
        self._remote.close()
        self._local.close()

    def _report_once(self, text: str) -> None:
        with self._lock:
            fresh = text not in self._reported and len(self._reported) < 5
            self._reported.add(text)
        if fresh:
            self._report(text)
