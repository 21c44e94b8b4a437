"""Run actions with the resources that they use, until one fails."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import replace

from modelbuild.actions import Action
from modelbuild.events import ActionStarted, Reporter
from modelbuild.execution.executor import Executor, Outcome, Request
from modelbuild.execution.scheduling.resources import ResourcePool
from modelbuild.execution.time_limit import TimeLimit


class Running:
    """Runs actions for at most `jobs` threads. `limit` returns the time that an action may run, or None."""

    def __init__(
        self,
        executor: Executor,
        pool: ResourcePool,
        reporter: Reporter,
        jobs: int,
        keep_going: bool = False,
        limit: Callable[[Action], TimeLimit | None] = lambda action: None,
    ) -> None:
        self.jobs = jobs
        self.keep_going = keep_going
        self._executor = executor
        self._limit = limit
        self._pool = pool
        self.reporter = reporter
        self._stopped = False
        self._slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(jobs):
            self._slots.put(slot)

    def run(self, request: Request) -> tuple[Outcome, int] | None:
        """Return the outcome and the slot; None if another action's failure stopped the build before."""
        action = request.action
        slot = self._slots.get()
        try:
            with self._pool.acquire(action.resources):
                if self._stopped:
                    return None
                self.reporter.emit(
                    ActionStarted(action.id, action.owner, action.mnemonic, action.description or action.mnemonic, slot)
                )
                outcome = self._execute(request)
                # Set here, before the outcome is processed, so that no waiting thread starts another action.
                self._stopped |= outcome.result is None and not self.keep_going
            return outcome, slot
        finally:
            self._slots.put(slot)

    def run_again(self, request: Request) -> Outcome:
        """Run an action whose result turned out to be unusable."""
        with self._pool.acquire(request.action.resources):
            return self._execute(request)

    def _execute(self, request: Request) -> Outcome:
        return self._executor.run(replace(request, limit=self._limit(request.action)))

    def close(self) -> None:
        """End every process."""
        self._executor.close()
