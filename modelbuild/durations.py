"""Durations that a user writes, in BUILD.toml, in MODELBUILD.toml or on the command line: `"30 min"`, `90`."""

from __future__ import annotations

import re

from modelbuild.lines import shown

MOST = 1_000_000  # seconds: clocks and sockets reject larger numbers
EXPECTED = 'a duration such as "30 min" or "1.5 h", or seconds'

# A letter alone is refused, except for seconds and hours: m is a minute to some programs and a month to others.
_UNITS = {"": 1, "s": 1, "min": 60, "h": 3600}
_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([A-Za-z]*)\Z")


def parse_duration(value: int | str) -> float:
    """Return the seconds of a duration. Raises ValueError for text that is not a duration, and for a duration that is
    not from 1 s to 1,000,000 s."""
    if isinstance(value, int):
        seconds, got = float(value), str(value)
    else:
        match, got = _DURATION.match(value), shown(value)
        if match is None or match[2] not in _UNITS:
            raise ValueError(f"expected {EXPECTED}, got {got}")
        seconds = float(match[1]) * _UNITS[match[2]]
    if not 1 <= seconds <= MOST:
        raise ValueError(f"expected a duration from 1 s to {MOST} s, got {got}")
    return seconds


def duration_text(seconds: float) -> str:
    """Return a duration as a user would write it: `30 min`, `1 h 30 min`, `1.5 s`."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes), f"{rest:g} s" * bool(rest)]
    return " ".join(filter(None, parts))
