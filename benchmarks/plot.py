"""Draw bars on a logarithmic scale, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

LABEL, WIDTH, ROW, GAP = 110, 420, 16, 26


def bars(groups: Mapping[str, Mapping[str, float]]) -> str:
    """Return an SVG with a bar per value (seconds) of each group, shortest first; the scale starts at 10 ms or less."""
    values = [value for group in groups.values() for value in group.values()]
    low = min([0.01, *values])
    span = math.log10(max([1.0, *values]) / low)
    parts: list[str] = []
    top = 0
    for name, group in groups.items():
        top += GAP
        parts.append(f'<text x="0" y="{top - 6}" font-weight="bold">{escape(name)}</text>')
        for label, value in sorted(group.items(), key=lambda item: item[1]):
            length = max(2.0, WIDTH * math.log10(value / low) / span)
            colour = "#c2410c" if label == "modelbuild" else "#94a3b8"
            parts.append(f'<text x="{LABEL - 6}" y="{top + 12}" text-anchor="end">{escape(label)}</text>')
            parts.append(f'<rect x="{LABEL}" y="{top + 2}" width="{length:.1f}" height="{ROW - 4}" fill="{colour}"/>')
            parts.append(f'<text x="{LABEL + length + 5:.1f}" y="{top + 12}">{_seconds(value)}</text>')
            top += ROW
    style = 'font-family="sans-serif" font-size="11" fill="#334155"'
    size = f'viewBox="0 0 {LABEL + WIDTH + 80} {top + 8}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(parts) + "\n</svg>\n"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
