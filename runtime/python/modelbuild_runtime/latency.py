"""Latency of runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from modelbuild_runtime.errors import InputError

_MOST = 1_000_000  # runs


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of the runtime's execute call with prepared inputs, over `runs` runs after `warmup` warmup runs."""

    runs: int
    warmup: int
    min_ms: float
    median_ms: float
    p95_ms: float
    max_ms: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.median_ms:.3f} ms median, {self.min_ms:.3f} min, {self.p95_ms:.3f} p95"
            f" ({self.runs} runs after {self.warmup})"
        )


def measured(once: Callable[[], float], repeat: int, warmup: int) -> Latency:
    """Return the latency of `repeat` calls, each of which returns its milliseconds, after `warmup` warmup calls."""
    if not (1 <= repeat <= _MOST and 0 <= warmup <= _MOST):
        raise InputError(f"repeat must be at least 1 and warmup at least 0, and both at most {_MOST}")
    times = sorted([once() for _ in range(warmup + repeat)][warmup:])
    p95 = times[math.ceil(0.95 * len(times)) - 1]
    return Latency(repeat, warmup, times[0], median(times), p95, times[-1])
