"""Compare the newest value of a measure with earlier values: a change, a regression, or noise."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

# Measures that depend only on the inputs. Other measures vary with the machine and its load.
EXACT = frozenset({"bytes", "delegates", "delegated_fraction"})
_MORE_IS_BETTER = frozenset({"delegated_fraction"})
# Facts about a run that are neither good nor bad.
_CONTEXT = frozenset({"clock_mhz", "temperature_c"})
_ACCURACY = "accuracy_"  # prefix of the names of a test's accuracies
LATENCY_OF = "latency_ms_"  # prefix of the measures of latency of a test's further methods

BEFORE = 10  # values
_LEAST = 3  # of a measure that varies
_EXACT_CHANGE, _CHANGE = 0.01, 0.2


def change(values: Sequence[float]) -> float | None:
    """Return the relative change of the newest value from the median of up to ten before it: 0.5 is half as much again.
    Oldest first."""
    before = values[-1 - BEFORE : -1]
    usual = median(before) if before else 0.0
    return (values[-1] - usual) / usual if usual else None


def is_regression(name: str, values: Sequence[float]) -> bool:
    """Return whether a measure became worse, given its values, oldest first. Sizes and numbers of partitions must be
    worse by more than 1%. Measures that vary, such as seconds, must be worse by more than a fifth, and beyond all of
    the previous three to ten values."""
    found = change(values)
    if found is None or name in _CONTEXT:
        return False
    if name in _MORE_IS_BETTER or name.startswith(_ACCURACY):
        found = -found
    if name in EXACT:
        return found > _EXACT_CHANGE
    before = values[-1 - BEFORE : -1]
    return len(before) >= _LEAST and found > _CHANGE and values[-1] > max(before)


def noise(name: str, before: Sequence[float], base: float, now: float) -> str:
    """Return a note about a change of a measure that varies. It is `within noise` if the change from `base` is at most
    a fifth, or if `now` is not beyond all of up to ten earlier values. It is `few values` if there are fewer than three
    earlier values, and '' for any other change."""
    if name in EXACT or base == now:
        return ""
    known = before[-BEFORE:]
    if len(known) < _LEAST:
        return "few values"
    far = base != 0 and abs(now - base) / abs(base) > _CHANGE
    return "" if far and not min(base, *known) <= now <= max(base, *known) else "within noise"
