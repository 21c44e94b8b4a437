"""Collect targets' measurements: bytes of outputs, and values that tests report."""

from __future__ import annotations

import threading
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
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], float] = {}
        self._finished = False

    def emit(self, event: Event) -> None:
        with self._lock:
            match event:
                case TargetBuilt() if event.outputs:
                    self._values[TargetId.of(event.label, event.config), "bytes"] = float(self._sizes(event.outputs))
                case TestFinished():
                    subject = TargetId.of(event.label, event.config)
                    self._values.update(((subject, name), value) for name, value in event.measures.items())
                case BuildFinished():
                    self._finished = True

    def close(self) -> None:
        with self._lock:
            if self._finished:
                self._finished = False
                self._keep(self._values)
