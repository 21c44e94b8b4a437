"""Combine several reporters."""

from __future__ import annotations

from collections.abc import Sequence

from modelbuild.events import Event, Reporter


class SeveralReporters:
    """Passes each event to several reporters, in order."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = tuple(reporters)

    def emit(self, event: Event) -> None:
        for reporter in self._reporters:
            reporter.emit(event)

    def close(self) -> None:
        for reporter in self._reporters:
            reporter.close()
