"""Measurements of tests on devices, by device and commit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.errors import UsageError
from modelbuild.history.database import read_history, read_object, write_history
from modelbuild.history.identity import identity
from modelbuild.history.regressions import change, is_regression
from modelbuild.ids import TargetId
from modelbuild.labels import Label

if TYPE_CHECKING:
    import sqlite3

_KEPT = 200  # values of one measure of a test on one device
_OF_TEST = "workspace = ? AND device = ? AND subject = ? AND name = ?"


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """A test's result on a device.

    device    the label of the device
    identity  the facts that the device reported about itself
    subject   id of the test (see ids.TargetId)
    cached    the values come from an earlier run
    """

    device: str
    identity: Mapping[str, str]
    subject: str
    cached: bool
    measures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class DevicePoint:
    """One value, the time at which it was recorded (seconds since 1970), the commit or '', and the device's identity
    then."""

    at: float
    value: float
    commit: str
    identity: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeviceSeries:
    """The values of one measure of a test on a device, oldest first."""

    device: str
    subject: str
    name: str
    points: Sequence[DevicePoint]

    @property
    def values(self) -> list[float]:
        return [point.value for point in self.points]

    @property
    def regression(self) -> bool:
        return is_regression(self.name, self.values)

    @property
    def change(self) -> float | None:
        return change(self.values)


def remember_runs(directory: Path, root: Path, runs: Iterable[DeviceRun], commit: str | None) -> None:
    """Store values of the workspace at `root` in the history in the cache's folder. A cached result is not a
    measurement: it adds the commit to the newest value, or adds a value if the newest value differs."""
    own, now = identity(root), time.time()

    def work(history: sqlite3.Connection) -> None:
        for run in runs:
            stated = json.dumps(dict(run.identity), sort_keys=True)
            for name, value in run.measures.items():
                _add(history, (own, run.device, run.subject, name), (now, value, commit or "", stated), run.cached)

    write_history(directory, work)


def _add(history: sqlite3.Connection, of: tuple[str, ...], row: tuple[float, float, str, str], cached: bool) -> None:
    now, value, commit, stated = row
    newest = f"SELECT at, value, revision, identity FROM device_runs WHERE {_OF_TEST} ORDER BY at DESC LIMIT 1"
    last = history.execute(newest, of).fetchone() if cached else None
    if last is not None and (last[1], last[3]) == (value, stated):
        if commit and not last[2]:
            history.execute(f"UPDATE device_runs SET revision = ? WHERE {_OF_TEST} AND at = ?", (commit, *of, last[0]))
        return
    history.execute("INSERT OR REPLACE INTO device_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*of, now, *row[1:]))
    old = f"SELECT at FROM device_runs WHERE {_OF_TEST} ORDER BY at DESC LIMIT -1 OFFSET {_KEPT}"
    history.execute(f"DELETE FROM device_runs WHERE {_OF_TEST} AND at IN ({old})", (*of, *of))


def device_series(directory: Path, root: Path) -> list[DeviceSeries]:
    """Return the measures of the workspace at `root`: the worst regression first, then the other measures by growth."""
    found: dict[tuple[str, str, str], list[DevicePoint]] = {}
    for device, subject, name, point in _rows(directory, root):
        found.setdefault((device, subject, name), []).append(point)
    series = [DeviceSeries(*key, points) for key, points in found.items()]
    return sorted(series, key=lambda each: (not each.regression, -(each.change or 0.0), each.subject, each.name))


def _rows(directory: Path, root: Path) -> Iterator[tuple[str, str, str, DevicePoint]]:
    """Yield device, subject, name and value, oldest first; skips rows that this module did not write."""
    texts = ", ".join(f"CAST({name} AS TEXT)" for name in ("device", "subject", "name", "revision", "identity"))
    sql = f"SELECT {texts}, CAST(at AS REAL), CAST(value AS REAL) FROM device_runs WHERE workspace = ? ORDER BY at"
    for device, subject, name, commit, stated, at, value in read_history(directory, sql, [identity(root)]):
        if isfinite(at + value) and _is_label(device) and _is_label(TargetId(subject).label):
            yield device, subject, name, DevicePoint(at, value, commit, _facts(stated))


def _is_label(text: str) -> bool:
    try:
        Label.parse(text)
    except UsageError:
        return False
    return True


def _facts(text: Any) -> dict[str, str]:
    with suppress(ValueError):
        return {str(name): str(value) for name, value in read_object(text).items()}
    return {}
