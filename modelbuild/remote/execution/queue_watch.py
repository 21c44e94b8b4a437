"""Report actions that wait for a worker: the Remote Execution API cannot report that no worker matches."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from modelbuild.actions import Action
from modelbuild.wording import action_line, duration

# ExecutionStage.Value: a worker has started, or finished.
_STARTED = (3, 4)
_QUEUED = 2

# Checks in the silent period.
_CHECKS = 10


@dataclass(slots=True, eq=False)
class _Sent:
    action: Action
    properties: tuple[tuple[str, str], ...]
    at: float
    stage: int = 0


class QueueWatch:
    """Watches actions after they are sent, until close(). Safe for many threads.

    name    the server's name for display
    after   seconds without a start after which a waiting action is reported. An action starts on a worker for its
            properties; if others with them start meanwhile, there are merely more actions than workers.
    report  called with the first waiting action for each set of requested properties
    """

    def __init__(self, name: str, after: float, report: Callable[[str], None]) -> None:
        self._name = name
        self._after = after
        self._report = report
        self._lock = threading.Lock()
        self._sent: set[_Sent] = set()
        self._started: dict[tuple[tuple[str, str], ...], float] = defaultdict(float)  # the last start
        self._reported: set[tuple[tuple[str, str], ...]] = set()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watch(self, action: Action, asked: Mapping[str, str]) -> Iterator[Callable[[int], None]]:
        """Watch an action while it is at the server. Yields a function to call with each stage that the server
        reports."""
        sent = _Sent(action, tuple(sorted(asked.items())), time.monotonic())
        with self._lock:
            self._sent.add(sent)
            if self._thread is None:
                self._thread = threading.Thread(target=self._check_all, name="queue", daemon=True)
                self._thread.start()
        try:
            yield partial(self._set_stage, sent)
        finally:
            self._set_stage(sent, max(_STARTED))
            with self._lock:
                self._sent.remove(sent)

    def close(self) -> None:
        self._closed.set()

    def _set_stage(self, sent: _Sent, stage: int) -> None:
        with self._lock:
            sent.stage = stage
            if stage in _STARTED:
                self._started[sent.properties] = time.monotonic()

    def _check_all(self) -> None:
        while not self._closed.wait(self._after / _CHECKS):
            now = time.monotonic()
            with self._lock:
                late = {each.properties: each for each in self._sent if self._is_late(each, now)}
                self._reported |= late.keys()
            for each in late.values():
                self._report(self._line(each))

    def _is_late(self, sent: _Sent, now: float) -> bool:
        waits = sent.stage not in _STARTED and sent.properties not in self._reported
        return waits and now - max(sent.at, self._started[sent.properties]) >= self._after

    def _line(self, sent: _Sent) -> str:
        so_far = duration(self._after)
        waits = (
            f"has waited {so_far} for a worker"
            if sent.stage == _QUEUED
            else f"has been on the server for {so_far}, perhaps without a worker"
        )
        wants = ", ".join(f"{name}={value}" for name, value in sent.properties) or "no property"
        return f"remote executor {self._name}: {action_line(sent.action)} {waits}; it requests {wants}"
