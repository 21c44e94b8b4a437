"""The history of tests on devices, as `modelbuild history --on` prints it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from modelbuild.history.device_runs import DevicePoint, DeviceSeries, device_series
from modelbuild.history.measurements import Point
from modelbuild.history.regressions import LATENCY_OF, change, is_regression
from modelbuild.ids import TargetId
from modelbuild.labels import Label
from modelbuild.loading.patterns import Pattern, parse_pattern
from modelbuild.wording import number

VERSION = 1
_SHOWN = ("latency_ms", "latency_p95_ms", "peak_memory")  # and the latencies of further methods
_CONTEXT = {"temperature_c": "C", "clock_mhz": "MHz"}
_POINTS = 10  # lines of one measure


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceHistory:
    """The series of some devices and tests, the worst regression first. `others` are measures of the same runs, such as
    temperatures."""

    series: Sequence[DeviceSeries]
    others: Sequence[DeviceSeries]

    @classmethod
    def read(
        cls, directory: Path, root: Path, devices: Sequence[str], target: str | None, package: str
    ) -> DeviceHistory:
        """Read the runs on devices that match patterns, of one test or of all tests. Raises UsageError for a malformed
        pattern."""
        patterns = [parse_pattern(text, package) for text in devices]
        wanted = parse_pattern(target, package) if target is not None else None
        found = [
            each
            for each in device_series(directory, root)
            if any(_matches(pattern, each.device) for pattern in patterns)
            and (wanted is None or _matches(wanted, TargetId(each.subject).label))
        ]
        shown = [each for each in found if each.name in _SHOWN or each.name.startswith(LATENCY_OF)]
        return cls(shown, [each for each in found if each not in shown])

    @property
    def worse(self) -> bool:
        return any(each.regression for each in self.series)

    def lines(self) -> Iterator[str]:
        """Yield a line for each measure, followed by a line for each of its newest builds."""

        context = {(each.device, each.subject, each.name): each.points for each in self.others}
        for each in self.series:
            yield f"{each.device}  {series_text(each.subject, each.name, each.values)}"
            for place in range(len(each.points) - 1, max(-1, len(each.points) - 1 - _POINTS), -1):
                yield _line(each.points, place, context, each)

    def document(self) -> dict[str, Any]:
        """Return all measures as JSON."""
        every = (*self.series, *self.others)
        rows = [{"device": each.device, **series_json(each.subject, each.name, each.points)} for each in every]
        return {"version": VERSION, "series": rows}


def series_text(subject: str, name: str, values: Sequence[float]) -> str:
    """Return a line about the values of a measure, which ends with `WORSE by 12%` for a regression."""
    last, usual, low, high = map(number, (values[-1], median(values), min(values), max(values)))
    worse = f"  WORSE by {abs(change(values) or 0):.0%}" if is_regression(name, values) else ""
    return f"{subject} {name}: last {last}, median {usual}, {low} to {high} ({len(values)}){worse}"


def series_json(subject: str, name: str, points: Sequence[Point] | Sequence[DevicePoint]) -> dict[str, Any]:
    """Return the values of a measure as JSON."""
    values = [point.value for point in points]
    return {
        "subject": subject,
        "name": name,
        "change": change(values),
        "regression": is_regression(name, values),
        "points": [dataclasses.asdict(point) for point in points],
    }


def _line(
    points: Sequence[DevicePoint],
    place: int,
    context: Mapping[tuple[str, str, str], Sequence[DevicePoint]],
    series: DeviceSeries,
) -> str:
    """Return a build's line: the commit or date, the value, the state of the device, and facts that differ from the
    previous build."""

    point = points[place]
    when = point.commit[:12] or time.strftime("%Y-%m-%d", time.gmtime(point.at))
    parts = [number(point.value)]
    state = [
        f"{number(other.value)} {unit}"
        for name, unit in _CONTEXT.items()
        for other in context.get((series.device, series.subject, name), ())
        if other.at == point.at
    ]
    parts += [", ".join(state)] if state else []
    if place:
        parts += _changed(points[place - 1].identity, point.identity)
    return f"  {when:<12}  {'  '.join(parts)}"


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield f"{name}: {before.get(name, 'none')} -> {now.get(name, 'none')}"


def _matches(pattern: Pattern, text: str) -> bool:
    label = Label.parse(text)
    if pattern.name is not None:
        return (label.package, label.name) == (pattern.package, pattern.name)
    below = pattern.below and (not pattern.package or label.package.startswith(f"{pattern.package}/"))
    return below or label.package == pattern.package
