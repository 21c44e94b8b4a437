"""Combine several reporters."""

from __future__ import annotations

from collections.abc import Sequence

from modelbuild.errors import ModelbuildError
from modelbuild.events import Event, Reporter


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
