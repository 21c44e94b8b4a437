"""Upload results to a remote cache during the build."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from modelbuild.actions import ActionResult
from modelbuild.store.codec import blobs_of

# Uploads a result; calls its last argument with the number of remaining bytes.
Publish: TypeAlias = Callable[[str, ActionResult, Callable[[int], None]], None]

# One thread waits for a slow connection while the other reads the disk; more threads would slow down downloads.
_THREADS = 2
# Seconds until a wait is reported, and between reports.
_REPORT = 1.0


class Uploads:
    """A queue of results. It holds digests; bytes are read from the local store when they are sent."""

    def __init__(self, publish: Publish, say: Callable[[str], None]) -> None:
        self._publish = publish
        self._say = say
        self._dropped = False
        self._waiting: SimpleQueue[tuple[int, str, ActionResult] | None] = SimpleQueue()
        self._changed = threading.Condition()
        self._left: dict[int, int] = {}  # bytes of each result still to be sent
        self._added = 0

    def add(self, key: str, result: ActionResult) -> None:
        with self._changed:
            self._added += 1
            self._left[self._added] = sum(digest.size for digest in blobs_of(result))
            self._waiting.put((self._added, key, result))
            if self._added <= _THREADS:
                # A daemon, so that an upload in progress does not keep an interrupted build from exiting.
                threading.Thread(target=self._work, name=f"upload-{self._added}", daemon=True).start()

    def wait(self, report: Callable[[int, int], None]) -> None:
        """Wait until everything is uploaded. Calls `report` every second with the number of remaining results and
        bytes."""
        next_report = time.monotonic() + _REPORT
        while True:
            with self._changed:
                while self._left and time.monotonic() < next_report:
                    self._changed.wait(next_report - time.monotonic())
                left = list(self._left.values())
            if not left:
                return
            report(len(left), sum(left))
            next_report = time.monotonic() + _REPORT

    def drop(self) -> None:
        """Start no more uploads. Uploads in progress fail when the connection is closed."""
        self._dropped = True
        for _ in range(_THREADS):
            self._waiting.put(None)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None and not self._dropped:
            number, key, result = job
            try:
                self._publish(key, result, partial(self._set_remaining, number))
            except Exception as error:
                # Any other exception is a bug, but must not fail a build.
                if not self._dropped:
                    self._say(f"remote cache: an upload failed: {type(error).__name__}: {error}")
            with self._changed:
                del self._left[number]
                self._changed.notify_all()

    def _set_remaining(self, number: int, size: int) -> None:
        with self._changed:
            self._left[number] = size
