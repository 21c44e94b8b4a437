"""Whether the newest value of a measure is worse than those before it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

# Values that the same inputs give again. Others vary with the machine and what else it does.
_EXACT = frozenset({"bytes", "delegates", "delegated_fraction"})
_MORE_IS_BETTER = frozenset({"delegated_fraction"})

_BEFORE = 10  # values
_LEAST = 3  # of a measure that varies
_EXACT_CHANGE, _CHANGE = 0.01, 0.2


def change(values: Sequence[float]) -> float | None:
    """Of the newest value against the median of up to ten before it: 0.5 is half as much again. Oldest first."""
    before = values[-1 - _BEFORE : -1]
    usual = median(before) if before else 0.0
    return (values[-1] - usual) / usual if usual else None


def is_regression(name: str, values: Sequence[float]) -> bool:
    """Whether a measure became worse: sizes and numbers of partitions by more than 1%; what varies, such as seconds, by
    more than a fifth, beyond all of up to ten values before, of which there must be three. Oldest first."""
    found = change(values)
    if found is None:
        return False
    if name in _MORE_IS_BETTER:
        found = -found
    if name in _EXACT:
        return found > _EXACT_CHANGE
    before = values[-1 - _BEFORE : -1]
    return len(before) >= _LEAST and found > _CHANGE and values[-1] > max(before)
