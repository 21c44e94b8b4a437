"""Plot measurements with matplotlib, which `modelbuild[plot]` installs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild.errors import EnvironmentProblem, UsageError
from modelbuild.history.measurements import Point

_WIDTH, _HEIGHT = 5.0, 2.2  # inches of a panel
_TICKS = 6  # labels of builds below a panel
_FLAT = 0.1  # a smaller range than this part of the greatest value is not drawn larger
_BYTES = {"bytes", "memory", "peak_memory", "max_rss", "largest memory"}
_SECONDS = {"seconds", "total seconds"}
_NAMES = {
    "bytes": "size",
    "latency_ms": "latency",
    "max_rss": "memory",
    "seconds": "time",
    "total seconds": "total time",
}


@dataclass(frozen=True, slots=True)
class Panel:
    """The values of one measure, oldest first. `worse` is a text such as `WORSE by 12%`, or ''."""

    subject: str
    name: str
    points: Sequence[Point]
    worse: str = ""


def write_plot(path: Path, label: str, panels: Sequence[Panel], commits: Mapping[float, str]) -> None:
    """Write a file with panels of a target: SVG, or PNG or PDF according to the suffix.

    All panels have the same axis of builds, equally spaced in order of time. A build has the first digits of its commit
    as label, where `commits` has its time, else its date. The last point of a measure that became worse is red.

    Raises UsageError if the file cannot be written, and EnvironmentProblem if matplotlib is missing.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise EnvironmentProblem(
            "--plot needs the package 'matplotlib', which is not installed; install modelbuild[plot]"
        ) from None
    columns = 1 if len(panels) < 3 else 2 if len(panels) < 12 else 3
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(_WIDTH * columns, 0.6 + _HEIGHT * rows), layout="constrained")
    figure.suptitle(label, parse_math=False)
    times = sorted({point.at for panel in panels for point in panel.points})
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for axes, panel in zip(grid.flat, panels, strict=False):
        _draw(axes, panel, panel.subject.removeprefix(label).strip(), {at: place for place, at in enumerate(times)})
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    shown = sorted({round(each * (len(times) - 1) / (_TICKS - 1)) for each in range(_TICKS)})
    labels = [commits.get(times[place], "")[:7] or _date(times[place]) for place in shown]
    for axes in grid.flat[max(0, len(panels) - columns) : len(panels)]:
        axes.tick_params(labelbottom=True)
        axes.set_xticks(shown, labels, fontsize="x-small", rotation=20)
    try:
        with rc_context({"svg.fonttype": "none"}):  # text that can be searched and copied
            figure.savefig(path, format=path.suffix[1:] or "svg")
    except ValueError as error:  # a format that there is none of
        raise UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _draw(axes: Any, panel: Panel, subject: str, places: Mapping[float, int]) -> None:
    from matplotlib.ticker import EngFormatter

    factor, unit = _scale(panel.name, max(abs(point.value) for point in panel.points))
    values = [point.value / factor for point in panel.points]
    builds = [places[point.at] for point in panel.points]
    name = _NAMES.get(panel.name, panel.name.replace("_", " "))
    heading = f"{subject} {name}".lstrip() + (f" ({unit})" if unit else "")
    axes.set_title(f"{heading}  {panel.worse}".rstrip(), fontsize="small", loc="left", parse_math=False)
    axes.plot(builds, values, ".-")
    axes.plot(builds[-1], values[-1], "o", color="red" if panel.worse else "C0")
    low, high = min(values), max(values)
    missing = max(_FLAT * max(abs(low), abs(high)) - (high - low), 0.0) or (1.0 if low == high else 0.0)
    margin = missing / 2 + 0.08 * (high - low)
    axes.set_ylim(low - margin, high + margin)
    if unit and max(-low, high) < 1e6:
        axes.ticklabel_format(axis="y", style="plain", useOffset=False)
    else:
        axes.yaxis.set_major_formatter(EngFormatter())  # such as 2 M
    axes.locator_params(axis="y", nbins=4)
    axes.grid(axis="y", alpha=0.3)


def _scale(name: str, greatest: float) -> tuple[float, str]:
    """Return the number of a measure's units in the unit of its axis, and that unit's name."""
    if name in _BYTES:
        power = min(max(0, int(math.log2(greatest)) // 10), 4) if greatest >= 1 else 0
        return float(1 << 10 * power), ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
    if name in _SECONDS:
        return (3600.0, "h") if greatest >= 7200 else (60.0, "min") if greatest >= 120 else (1.0, "s")
    if name.endswith("_fraction"):
        return 0.01, "%"
    return 1.0, "ms" if name.endswith("_ms") else ""


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))
