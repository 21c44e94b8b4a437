"""Measurements of earlier builds and tests: durations, sizes, latencies."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from modelbuild.history.database import read_history
from modelbuild.history.identity import identity
from modelbuild.history.regressions import BEFORE
from modelbuild.ids import ActionId


@dataclass(frozen=True, slots=True)
class Point:
    """One number, its time (seconds since 1970), and the key of its action, or ''."""

    at: float
    value: float
    key: str


class Measures:
    """Measures of the workspace at `root`, in a cache's folder. `last` and `before` return values from before it was
    opened."""

    def __init__(self, directory: Path, root: Path) -> None:
        self._directory = directory
        self._workspace = identity(root)
        self._before: dict[tuple[str, str], deque[float]] = {}
        for subject, name, _, value, _ in self._rows("at"):
            self._before.setdefault((subject, name), deque(maxlen=BEFORE)).append(value)

    def last(self, subject: str, name: str) -> float | None:
        """Return the newest value, for example of ("//models:detector (cpu)", "bytes")."""
        found = self._before.get((subject, name))
        return found[-1] if found else None

    def ran(self, action: str, key: str) -> float | None:
        """Return the time at which an action with this key last ran, here or on a remote worker; None if never."""
        sql = (
            "SELECT CAST(at AS REAL) FROM measures WHERE workspace = ? AND subject = ? AND name = 'seconds' AND key = ?"
            " ORDER BY at DESC LIMIT 1"
        )
        rows = read_history(self._directory, sql, [self._workspace, action, key])
        return rows[0][0] if rows and isfinite(rows[0][0]) else None

    def before(self, subject: str, name: str) -> Sequence[float]:
        """Return up to ten newest values, oldest first."""
        return tuple(self._before.get((subject, name), ()))

    def series(self, label: str) -> dict[tuple[str, str], list[Point]]:
        """Return all values of a target in any configuration, and of its actions: by subject and name, oldest first."""
        found: dict[tuple[str, str], list[Point]] = {}
        for subject, name, at, value, key in self._rows("subject, name, at"):
            if ActionId(subject).label == label:
                found.setdefault((subject, name), []).append(Point(at, value, key))
        return found

    def _rows(self, order: str) -> list[tuple[str, str, float, float, str]]:
        """Return subject, name, time, value and key of each measure, also if a column of a damaged file has another
        type."""
        columns = "CAST(subject AS TEXT), CAST(name AS TEXT), CAST(at AS REAL), CAST(value AS REAL), CAST(key AS TEXT)"
        sql = f"SELECT {columns} FROM measures WHERE workspace = ? ORDER BY {order}"
        rows = read_history(self._directory, sql, [self._workspace])
        return [(subject, name, at, value, key) for subject, name, at, value, key in rows if isfinite(at + value)]
