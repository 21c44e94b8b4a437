"""Combine reporters, keep secrets from them, and close them at the end of a job."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

from modelbuild.errors import ExitCode, ModelbuildError
from modelbuild.events import BuildAborted, Event, Reporter
from modelbuild.lines import one_line
from modelbuild.redaction import without_secrets
from modelbuild.report.text import write


@contextmanager
def reporting(reporter: Reporter) -> Iterator[Reporter]:
    """Yield the reporter behind _Gate. Close it at the end, and report an error or interrupt that ended the job. Raises
    as the reporter's close(), unless the job ended with an error."""
    reporter = _Gate(reporter)
    try:
        yield reporter
    except BaseException as error:
        if isinstance(error, ModelbuildError):
            reporter.emit(BuildAborted(str(error), exit=error.exit_code))
        elif isinstance(error, KeyboardInterrupt):
            reporter.emit(BuildAborted("interrupted", interrupted=True, exit=ExitCode.INTERRUPTED))
        try:
            reporter.close()
        except ModelbuildError as problem:
            write(sys.stderr, f"error: {one_line(str(problem))}")
        raise
    reporter.close()


class _Gate:
    """Passes events of any thread on, one at a time, without users, passwords and queries in addresses."""

    def __init__(self, inner: Reporter) -> None:
        self._inner = inner
        self._lock = threading.Lock()

    def emit(self, event: Event) -> None:
        with self._lock:
            self._inner.emit(_without_secrets(event))

    def close(self) -> None:
        with self._lock:
            self._inner.close()


def _without_secrets(value: Any) -> Any:
    """Return a value itself if nothing changes."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, tuple):
        inner = tuple(map(_without_secrets, value))
        return value if inner == value else inner
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        changed = {name: new for name, part in parts.items() if (new := _without_secrets(part)) is not part}
        return replace(value, **changed) if changed else value
    return value


class SeveralReporters:
    """Passes each event to several reporters, in order. Raises UsageError and EnvironmentProblem for their files."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = tuple(reporters)

    def emit(self, event: Event) -> None:
        for reporter in self._reporters:
            reporter.emit(event)

    def close(self) -> None:
        problems: list[ModelbuildError] = []
        for reporter in self._reporters:
            try:
                reporter.close()
            except ModelbuildError as problem:
                problems.append(problem)
        if problems:
            raise type(problems[0])("; ".join(map(str, problems)))
