"""Compare the newest value of a measure with earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

# Measures that depend only on the inputs. Others vary with the machine and its load.
_EXACT = frozenset({"bytes", "delegates", "delegated_fraction"})
_MORE_IS_BETTER = frozenset({"delegated_fraction"})

_BEFORE = 10  # values
_LEAST = 3  # of a measure that varies
_EXACT_CHANGE, _CHANGE = 0.01, 0.2


def change(values: Sequence[float]) -> float | None:
    """Return the relative change of the newest value from the median of up to ten before it: 0.5 is half as much again.
    Oldest first."""
    before = values[-1 - _BEFORE : -1]
    usual = median(before) if before else 0.0
    return (values[-1] - usual) / usual if usual else None


def is_regression(name: str, values: Sequence[float]) -> bool:
    """Return whether a measure became worse: sizes and numbers of partitions by more than 1%; measures that vary, such
    as seconds, by more than a fifth and beyond all of up to ten (and at least three) values before. Oldest first."""
    found = change(values)
    if found is None:
        return False
    if name in _MORE_IS_BETTER:
        found = -found
    if name in _EXACT:
        return found > _EXACT_CHANGE
    before = values[-1 - _BEFORE : -1]
    return len(before) >= _LEAST and found > _CHANGE and values[-1] > max(before)
