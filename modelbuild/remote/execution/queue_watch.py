"""Report actions that wait for a worker: the Remote Execution API cannot report that no worker matches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from modelbuild.actions import Action
from modelbuild.wording import action_line, duration

# ExecutionStage.Value: a worker has started, or finished.
_STARTED = (3, 4)
_QUEUED = 2


class QueueWatch:
    """Watches actions after they are sent. Safe for many threads.

    name    the server's name for display
    after   seconds until a waiting action is reported
    report  called with the first waiting action for each set of requested properties
    """

    def __init__(self, name: str, after: float, report: Callable[[str], None]) -> None:
        self._name = name
        self._after = after
        self._report = report
        self._lock = threading.Lock()
        self._reported: set[tuple[tuple[str, str], ...]] = set()

    @contextmanager
    def watch(self, action: Action, asked: Mapping[str, str]) -> Iterator[Callable[[int], None]]:
        """Watch an action while it is at the server. Yields a function to call with each stage that the server
        reports."""
        stages = [0]
        timer = threading.Timer(self._after, lambda: self._late(action, asked, stages[-1]))
        timer.daemon = True
        timer.start()
        try:
            yield stages.append
        finally:
            timer.cancel()

    def _late(self, action: Action, asked: Mapping[str, str], stage: int) -> None:
        properties = tuple(sorted(asked.items()))
        with self._lock:
            if stage in _STARTED or properties in self._reported:
                return
            self._reported.add(properties)
        so_far, queued = duration(self._after), stage == _QUEUED
        waits = (
            f"has waited {so_far} for a worker"
            if queued
            else f"has been on the server for {so_far}, perhaps without a worker"
        )
        wants = ", ".join(f"{name}={value}" for name, value in properties) or "no property"
        self._report(f"remote executor {self._name}: {action_line(action)} {waits}; it requests {wants}")
