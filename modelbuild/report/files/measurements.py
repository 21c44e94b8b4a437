"""Collect targets' measurements: bytes of outputs, and values that tests report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from modelbuild.events import BuildFinished, Event, TargetBuilt, TestFinished
from modelbuild.ids import TargetId


class MeasureRecorder:
    """`sizes` returns bytes of outputs; `keep` receives all values by (subject, name) on close, if the build
    finished."""

    def __init__(
        self, sizes: Callable[[Sequence[str]], int], keep: Callable[[Mapping[tuple[str, str], float]], None]
    ) -> None:
        self._sizes = sizes
        self._keep = keep
        self._values: dict[tuple[str, str], float] = {}
        self._finished = False

    def emit(self, event: Event) -> None:
        match event:
            case TargetBuilt() if event.outputs:
                self._values[TargetId.of(event.label, event.config), "bytes"] = float(self._sizes(event.outputs))
            case TestFinished():
                subject = TargetId.of(event.label, event.config)
                self._values.update(((subject, name), value) for name, value in event.measures.items())
            case BuildFinished():
                self._finished = True

    def close(self) -> None:
        if self._finished:
            self._keep(self._values)
