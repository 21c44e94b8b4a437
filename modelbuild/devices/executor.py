"""Run the device part of an action on its device, and its step like every other step."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.device_runners import DeviceJob, DeviceRunner
from modelbuild.events import ActionProgress, Reporter
from modelbuild.execution.executor import ActionRequest, Executor, Outcome
from modelbuild.store.interface import Store

if TYPE_CHECKING:
    from modelbuild.devices.pool import Pool


class DeviceExecutor:
    """Wraps the executor that runs steps. A device is reached when an action first needs it, over one connection.

    root   the workspace
    given  the runners of `--runner`, by the device's label
    """

    def __init__(
        self,
        inner: Executor,
        store: Store,
        root: Path,
        given: Sequence[tuple[str, DeviceRunner]],
        reporter: Reporter,
    ) -> None:
        self._inner = inner
        self._store = store
        self._root = root
        self._given = tuple(given)
        self._reporter = reporter
        self._lock = threading.Lock()
        self._pools: dict[str, Pool] = {}
        self._closed = False

    def identity(self, job: DeviceJob) -> Mapping[str, str]:
        """Return the identity that a job's device reports; empty if there is no device."""
        return self._pool(job).identity

    def run(self, request: ActionRequest) -> Outcome:
        job = request.action.device
        if job is None:
            return self._inner.run(request)
        from modelbuild.devices.problems import DeviceProblem
        from modelbuild.devices.run_job import run_job

        name = request.action.id

        def show(text: str) -> None:
            self._reporter.emit(ActionProgress(name, text, False))

        try:
            staged = run_job(request, job, self._pool(job), self._store, show)
        except DeviceProblem as problem:
            return Outcome(None, "interrupted" if self._closed else f"{job.label}: {problem}")
        show("")
        return self._inner.run(staged)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.interrupt()
        self._inner.close()
        for pool in pools:
            pool.close()

    def _pool(self, job: DeviceJob) -> Pool:
        from modelbuild.devices.pool import Pool, with_runners

        with self._lock:
            if job.label not in self._pools:
                spec = with_runners(job.label, job.spec, self._given)
                self._pools[job.label] = Pool(job.label, spec, self._root)
            return self._pools[job.label]
