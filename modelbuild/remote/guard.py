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
# Calls in a row that fail before the remote is left alone for some seconds. Then one call may try.
THRESHOLD = 3
COOL_DOWN = 30.0
# Wrong bytes are no accident of the line: after so many, in all, it is not asked again.
LIES = 3
_FIRST_PAUSE = 0.1


class Closed(RemoteProblem):
    """Not tried: the remote is being left alone. What there is to say has been said."""

    def __init__(self) -> None:
        super().__init__("down", "left alone")


class Guard:
    """One direction (reading or writing) of one remote. Safe for many threads.

    say   told once what goes wrong
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
        self._closed_until = float("-inf")
        self._said = False

    @property
    def closed(self) -> bool:
        """Whether a call would not be tried now."""
        return self._clock() < self._closed_until

    def call(self, operation: Callable[[], T]) -> T:
        """Do something, again if the line is bad. Raises RemoteProblem; Closed when the remote is left alone."""
        for attempt in range(ATTEMPTS):
            if self.closed:
                raise Closed
            try:
                done = operation()
            except RemoteProblem as problem:
                if problem.kind == "down" and not isinstance(problem, Closed) and attempt + 1 < ATTEMPTS:
                    self._sleep(_FIRST_PAUSE * 4**attempt * self._random.uniform(0.5, 1.5))
                    continue
                self.failed(problem)
                raise
            with self._lock:
                self._failures = 0
            return done
        raise AssertionError("unreachable")

    def failed(self, problem: RemoteProblem) -> None:
        """Take note of a failure (of call(), or found out later: bytes that are wrong)."""
        if problem.kind == "missing" or isinstance(problem, Closed):
            return
        with self._lock:
            self._failures += 1
            self._lies += problem.kind == "wrong"
            if problem.kind in ("refused", "full") or self._lies >= LIES:
                self._closed_until = float("inf")
            elif self._failures >= THRESHOLD:
                self._closed_until = max(self._closed_until, self._clock() + COOL_DOWN)
            said, self._said = self._said, True
        if not said:
            self._say(problem)
