"""Retries with back-off, and a circuit breaker that limits the cost of a failing remote."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from modelbuild.remote.problems import RemoteProblem

T = TypeVar("T")

ATTEMPTS = 3
# Consecutive failed calls after which the circuit is open for some seconds. Then one call probes the remote; each
# failed probe doubles the pause.
THRESHOLD = 3
COOL_DOWN = 30.0
LONGEST = 600.0
# Wrong bytes are not transmission errors: after this many in total, the remote is no longer used.
WRONG_ANSWERS = 3
_FIRST_PAUSE = 0.1


class CircuitOpen(RemoteProblem):
    """The call was not tried, because the circuit is open. The problem was already reported."""

    def __init__(self) -> None:
        super().__init__("down", "circuit open")


class CircuitBreaker:
    """One direction (reading or writing) of one remote. Safe for many threads.

    report   called once with the first failure, and once for a blob that is too big
    """

    def __init__(
        self,
        report: Callable[[RemoteProblem], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        seed: int | None = None,
    ) -> None:
        self._report = report
        self._clock = clock
        self._sleep = sleep
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._failures = 0
        self._wrong_answers = 0
        self._pause = COOL_DOWN
        self._open_until = float("-inf")
        self._reported: set[bool] = set()

    @property
    def is_open(self) -> bool:
        """Return whether calls are currently not tried."""
        return self._clock() < self._open_until

    def call(self, operation: Callable[[], T]) -> T:
        """Call `operation`; retry after network failures. Raises RemoteProblem; CircuitOpen if the circuit is open."""
        probing = self._enter()
        for attempt in range(ATTEMPTS):
            if self.is_open and not probing:
                raise CircuitOpen
            try:
                done = operation()
            except RemoteProblem as problem:
                if problem.kind == "down" and not isinstance(problem, CircuitOpen) and attempt + 1 < ATTEMPTS:
                    self._sleep(_FIRST_PAUSE * 4**attempt * self._random.uniform(0.5, 1.5))
                    continue
                self.failed(problem)
                raise
            self._answered()
            return done
        raise AssertionError("unreachable")

    def _enter(self) -> bool:
        """Return whether this call is the probe. Raises CircuitOpen for other calls meanwhile."""
        with self._lock:
            if self.is_open:
                raise CircuitOpen
            probing = self._failures >= THRESHOLD
            if probing:
                self._pause = min(LONGEST, 2 * self._pause)
                self._open_until = self._clock() + self._pause
            return probing

    def _answered(self) -> None:
        with self._lock:
            self._failures = 0
            self._pause = COOL_DOWN
            if self._open_until < float("inf"):
                self._open_until = float("-inf")

    def failed(self, problem: RemoteProblem) -> None:
        """Count a failure of call(), or a failure found later: wrong bytes."""
        if isinstance(problem, CircuitOpen):
            return
        if problem.kind in ("missing", "big"):
            self._answered()
        else:
            self._count(problem)
        with self._lock:
            big = problem.kind == "big"
            fresh = problem.kind != "missing" and big not in self._reported
            self._reported.add(big)
        if fresh:
            self._report(problem)

    def _count(self, problem: RemoteProblem) -> None:
        with self._lock:
            self._failures += 1
            self._wrong_answers += problem.kind == "wrong"
            if problem.kind in ("refused", "full") or self._wrong_answers >= WRONG_ANSWERS:
                self._open_until = float("inf")
            elif self._failures >= THRESHOLD:
                self._open_until = self._clock() + self._pause
