"""An executor that runs each action where its kind should run: here, or on remote workers, or first the one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from modelbuild.execution.executor import Executor, Outcome, Request
from modelbuild.remote.circuit_breaker import CircuitBreaker, Closed
from modelbuild.remote.executor import RemoteExecutor
from modelbuild.remote.problems import RemoteProblem
from modelbuild.workspace.remote_settings import DEFAULT_PLACES, Strategy


class StrategyExecutor:
    """An Executor that asks one after another. Actions that use the network run here, unless their kind itself has a
    strategy: few workers reach what they fetch from.

    say   told once that the remote does not work, and once for each way in which a worker's toolchain is wrong
    """

    def __init__(
        self, local: Executor, remote: RemoteExecutor, name: str, strategy: Strategy, say: Callable[[str], None]
    ) -> None:
        self._local = local
        self._remote = remote
        self._name = name
        self._strategy: Mapping[str, tuple[str, ...]] = dict(strategy)
        self._say = say
        self._said: set[str] = set()
        self._lock = threading.Lock()
        self._guard = CircuitBreaker(lambda why: None)

    def run(self, request: Request) -> Outcome:
        action = request.action
        others = ("local",) if action.network else self._strategy.get("*", DEFAULT_PLACES)
        places = self._strategy.get(action.mnemonic, others)
        problem = ""
        for place in places:
            if place == "local":
                return self._local.run(request)
            try:
                return self._guard.call(lambda: self._remote.run(request))
            except Closed:
                problem = problem or f"remote executor {self._name} is being left alone after failures"
            except RemoteProblem as error:
                problem = f"remote executor {self._name}: {error}"
                if "local" in places:
                    self._say_once(f"{problem}; running it here")
        return Outcome(None, problem)

    def close(self) -> None:
        self._remote.close()
        self._local.close()

    def _say_once(self, text: str) -> None:
        with self._lock:
            fresh = text not in self._said and len(self._said) < 5
            self._said.add(text)
        if fresh:
            self._say(text)
