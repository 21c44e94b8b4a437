"""Suppress repeated events when a build starts over."""

from __future__ import annotations

import threading

from modelbuild.events import ActionFinished, ActionStarted, Event, Reporter, Status


class EachEventOnce:
    """Suppress repeated "cached" and "failed" events for an action already reported."""

    def __init__(self, inner: Reporter) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._ended: dict[str, Status] = {}

    def emit(self, event: Event) -> None:
        if not self._is_repeated(event):
            self._inner.emit(event)

    def close(self) -> None:
        self._inner.close()

    def _is_repeated(self, event: Event) -> bool:
        with self._lock:
            match event:
                case ActionStarted():
                    return self._ended.get(event.id) == "failed"
                case ActionFinished():
                    known = event.id in self._ended
                    before = self._ended.setdefault(event.id, event.status)
                    return known and (event.status == "cached" or before == "failed")
        return False
