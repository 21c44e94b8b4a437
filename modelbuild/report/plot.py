"""Plot measurements with matplotlib, which `modelbuild[plot]` installs."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from modelbuild.errors import EnvironmentProblem, UsageError
from modelbuild.history.measurements import Point


def write_plot(
    path: Path,
    title: str,
    series: Mapping[tuple[str, str], Sequence[Point]],
    worse: Collection[tuple[str, str]] = (),
) -> None:
    """Write a file with a panel for each series: SVG, or PNG or PDF according to the suffix.

    Points are equally spaced, in order of time. The last point of a series in `worse` is red. Raises UsageError if the
    file cannot be written, and EnvironmentProblem if matplotlib is missing.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise EnvironmentProblem(
            "--plot needs the package 'matplotlib', which is not installed; install modelbuild[plot]"
        ) from None
    figure = Figure(figsize=(8, 0.5 + 1.5 * len(series)), layout="constrained")
    figure.suptitle(title, parse_math=False)
    for axes, (key, points) in zip(figure.subplots(len(series), squeeze=False)[:, 0], series.items(), strict=True):
        last = len(points) - 1
        axes.set_title(" ".join(key), fontsize="small", loc="left", parse_math=False)
        axes.plot([point.value for point in points], ".-")
        axes.plot(last, points[last].value, "o", color="red" if key in worse else "C0")
        days = [time.strftime("%Y-%m-%d", time.gmtime(point.at)) for point in points]
        axes.set_xticks(sorted({0, last // 2, last}), [days[index] for index in sorted({0, last // 2, last})])
    try:
        with rc_context({"svg.fonttype": "none"}):  # text that can be searched and copied
            figure.savefig(path, format=path.suffix[1:] or "svg")
    except ValueError as error:  # a format that there is none of
        raise UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
