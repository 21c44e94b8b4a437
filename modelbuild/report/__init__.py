"""Reporters, which show or record a build's events."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from modelbuild.events import Reporter


def make_reporter(
    *,
    quiet: bool = False,
    as_json: bool = False,
    results: TextIO | None = None,
    show: str = "summary",
) -> Reporter:
    """Return a reporter: live on a terminal, one line per action elsewhere, one JSON object with `as_json`.

    Progress and failures go to stderr; built outputs go to `results` (stdout when None). `show` is the value of
    --show-outputs.
    """
    out = sys.stdout if results is None else results
    if as_json:
        from modelbuild.report.json_object import JsonReporter

        return JsonReporter(out, sys.stderr)
    if quiet or not _is_terminal(sys.stderr):
        from modelbuild.report.plain import PlainReporter

        return PlainReporter(out, sys.stderr, quiet=quiet, show=show)
    from modelbuild.report.console import ConsoleReporter

    return ConsoleReporter(out, sys.stderr, show)


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
