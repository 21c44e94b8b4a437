"""Numbers that earlier builds and tests left: durations, sizes, latencies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modelbuild.history.database import HistoryFile


@dataclass(frozen=True, slots=True)
class Point:
    """One number: when it was taken (seconds since 1970), and the key of the action that it belongs to, or ''."""

    at: float
    value: float
    key: str


class Measures:
    """The history in a cache's folder. What was known when it was opened is what `last` tells."""

    def __init__(self, directory: Path) -> None:
        self._file = HistoryFile(directory)
        rows = self._file.read("SELECT subject, name, value FROM measures ORDER BY at")
        self._last = {(subject, name): value for subject, name, value in rows}

    def last(self, subject: str, name: str) -> float | None:
        """The newest value, such as of ("//models:detector (cpu)", "bytes")."""
        return self._last.get((subject, name))

    def series(self, label: str) -> dict[tuple[str, str], list[Point]]:
        """All that is known of a target in any configuration, and of its actions: by subject and name, oldest first."""
        found: dict[tuple[str, str], list[Point]] = {}
        sql = "SELECT subject, name, at, value, key FROM measures ORDER BY subject, name, at"
        for subject, name, at, value, key in self._file.read(sql):
            if subject.partition("#")[0].partition(" (")[0] == label:
                found.setdefault((subject, name), []).append(Point(at, value, key))
        return found
