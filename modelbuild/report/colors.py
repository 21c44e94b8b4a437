"""Colors of results and errors on a terminal. Imports little, because a build with nothing to do may print results."""

from __future__ import annotations

import os

_END = "\x1b[0m"
_RESULTS = {"PASSED": "\x1b[32m", "FAILED": "\x1b[1;31m", "NOT RUN": "\x1b[33m"}
_ERRORS = ("error:", "internal error:")
_RED = _RESULTS["FAILED"]


def wanted() -> bool:
    """Return whether the user's terminal has colors and the user has not disabled them (see no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def highlight(lines: str) -> str:
    """Return lines with colored results of tests and a colored `error:`."""
    return "\n".join(map(_line, lines.split("\n"))) if wanted() else lines


def _line(line: str) -> str:
    for start in _ERRORS:
        if line.startswith(start):
            return f"{_RED}{start}{_END}{line[len(start) :]}"
    label, space, rest = line.partition("  ")
    for result, color in _RESULTS.items():
        if space and label.startswith("//") and rest.startswith(result):
            return f"{label}{space}{color}{result}{_END}{rest[len(result) :]}"
    return line
