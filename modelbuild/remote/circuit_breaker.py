"""Retries with back-off, and a circuit breaker: what keeps a bad remote from costing more than it is worth."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from modelbuild.remote.problems import RemoteProblem

T = TypeVar("T")

ATTEMPTS = 3
# Calls in a row that fail before the remote is left alone for some seconds. Then one call may try; each time that it
# fails, the pause is twice as long.
THRESHOLD = 3
COOL_DOWN = 30.0
LONGEST = 600.0
# Wrong bytes are no accident of the line: after so many, in all, it is not asked again.
LIES = 3
_FIRST_PAUSE = 0.1


class Closed(RemoteProblem):
    """Not tried: the remote is being left alone. What there is to say has been said."""

    def __init__(self) -> None:
        super().__init__("down", "left alone")


class CircuitBreaker:
    """One direction (reading or writing) of one remote. Safe for many threads.

    say   told once what goes wrong, and once what is too big
    """

    def __init__(
        self,
        say: Callable[[RemoteProblem], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        seed: int | None = None,
    ) -> None:
        self._say = say
        self._clock = clock
        self._sleep = sleep
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._failures = 0
        self._lies = 0
        self._pause = COOL_DOWN
        self._closed_until = float("-inf")
        self._said: set[bool] = set()

    @property
    def closed(self) -> bool:
        """Whether a call would not be tried now."""
        return self._clock() < self._closed_until

    def call(self, operation: Callable[[], T]) -> T:
        """Do something, again if the line is bad. Raises RemoteProblem; Closed when the remote is left alone."""
        probing = self._enter()
        for attempt in range(ATTEMPTS):
            if self.closed and not probing:
                raise Closed
            try:
                done = operation()
            except RemoteProblem as problem:
                if problem.kind == "down" and not isinstance(problem, Closed) and attempt + 1 < ATTEMPTS:
                    self._sleep(_FIRST_PAUSE * 4**attempt * self._random.uniform(0.5, 1.5))
                    continue
                self.failed(problem)
                raise
            self._answered()
            return done
        raise AssertionError("unreachable")

    def _enter(self) -> bool:
        """Whether this is the call that may try while the others wait. Raises Closed when it is one of those."""
        with self._lock:
            if self.closed:
                raise Closed
            probing = self._failures >= THRESHOLD
            if probing:
                self._pause = min(LONGEST, 2 * self._pause)
                self._closed_until = self._clock() + self._pause
            return probing

    def _answered(self) -> None:
        with self._lock:
            self._failures = 0
            self._pause = COOL_DOWN
            if self._closed_until < float("inf"):
                self._closed_until = float("-inf")

    def failed(self, problem: RemoteProblem) -> None:
        """Take note of a failure (of call(), or found out later: bytes that are wrong)."""
        if isinstance(problem, Closed):
            return
        if problem.kind in ("missing", "big"):
            self._answered()
        else:
            self._count(problem)
        with self._lock:
            big = problem.kind == "big"
            fresh = problem.kind != "missing" and big not in self._said
            self._said.add(big)
        if fresh:
            self._say(problem)

    def _count(self, problem: RemoteProblem) -> None:
        with self._lock:
            self._failures += 1
            self._lies += problem.kind == "wrong"
            if problem.kind in ("refused", "full") or self._lies >= LIES:
                self._closed_until = float("inf")
            elif self._failures >= THRESHOLD:
                self._closed_until = self._clock() + self._pause
