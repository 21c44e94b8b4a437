"""Series of numbers as a picture: one panel for each, in SVG, without a library."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from html import escape

from modelbuild.history.measurements import Point

_POINT, _WORSE = 'r="2" fill="#1f6feb"', 'r="4" fill="#d1242f"'
_WIDTH, _PANEL, _LEFT, _TOP, _BOTTOM = 720, 130, 90, 26, 18


def plot_svg(
    title: str, series: Mapping[tuple[str, str], Sequence[Point]], worse: Collection[tuple[str, str]] = ()
) -> str:
    """A panel for each series, from its least to its greatest value; points are at even distances, in order of time.
    The last one is red where it is worse than those before."""
    height = 40 + _PANEL * len(series)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="16">{escape(title)}</text>',
    ]
    for number, ((subject, name), points) in enumerate(series.items()):
        parts += _panel(f"{subject} {name}", points, 40 + number * _PANEL, (subject, name) in worse)
    return "\n".join([*parts, "</svg>\n"])


def _panel(title: str, points: Sequence[Point], top: int, worse: bool) -> list[str]:
    values = [point.value for point in points]
    low, high = min(values), max(values)
    inner = _PANEL - _TOP - _BOTTOM
    step = (_WIDTH - _LEFT - 20) / max(1, len(values) - 1)

    def place(index: int, value: float) -> tuple[float, float]:
        part = (value - low) / (high - low) if high > low else 0.5
        return _LEFT + index * step, top + _TOP + (1 - part) * inner

    places = [place(index, value) for index, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    days = [time.strftime("%Y-%m-%d", time.gmtime(point.at)) for point in (points[0], points[-1])]
    return [
        f'<text x="12" y="{top + 14}" font-size="12">{escape(title)}</text>',
        f'<text x="{_LEFT - 6}" y="{top + _TOP + 4}" font-size="10" text-anchor="end">{high:.6g}</text>',
        f'<text x="{_LEFT - 6}" y="{top + _TOP + inner}" font-size="10" text-anchor="end">{low:.6g}</text>',
        f'<text x="{_LEFT}" y="{top + _PANEL - 4}" font-size="10" fill="gray">{days[0]} to {days[1]}</text>',
        f'<polyline points="{line}" fill="none" stroke="#1f6feb" stroke-width="1.5"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" {_POINT}/>' for x, y in places[:-1]),
        f'<circle cx="{places[-1][0]:.1f}" cy="{places[-1][1]:.1f}" {_WORSE if worse else _POINT}/>',
    ]
