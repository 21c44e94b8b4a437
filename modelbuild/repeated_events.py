"""Tells of each action once, where a job builds first and then tests what it built, and where a build begins again."""

from __future__ import annotations

import threading

from modelbuild.events import ActionFinished, ActionStarted, Event, Reporter, Status


class EachEventOnce:
    """Leaves out that an action is found in the cache which was told of before, and that one fails again."""

    def __init__(self, inner: Reporter) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._ended: dict[str, Status] = {}

    def emit(self, event: Event) -> None:
        if not self._again(event):
            self._inner.emit(event)

    def close(self) -> None:
        self._inner.close()

    def _again(self, event: Event) -> bool:
        with self._lock:
            match event:
                case ActionStarted():
                    return self._ended.get(event.id) == "failed"
                case ActionFinished():
                    known = event.id in self._ended
                    before = self._ended.setdefault(event.id, event.status)
                    return known and (event.status == "cached" or before == "failed")
        return False
