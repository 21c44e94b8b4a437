"""Bringing results to a remote cache while the build goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from modelbuild.actions import ActionResult
from modelbuild.store.codec import blobs_of

# Brings a result there; tells each time how many bytes of it are still to go.
Publish: TypeAlias = Callable[[str, ActionResult, Callable[[int], None]], None]

# One is kept waiting by a slow line while another reads the disk; more would take the line from downloads.
_THREADS = 2
# Seconds that pass before a wait is told of, and from then on between one time and the next.
_TELL = 1.0


class Uploads:
    """A queue of results. It holds digests; bytes are read from the local store when their turn comes."""

    def __init__(self, publish: Publish, say: Callable[[str], None]) -> None:
        self._publish = publish
        self._say = say
        self._dropped = False
        self._waiting: SimpleQueue[tuple[int, str, ActionResult] | None] = SimpleQueue()
        self._changed = threading.Condition()
        self._left: dict[int, int] = {}  # bytes of each result that is not there yet
        self._added = 0

    def add(self, key: str, result: ActionResult) -> None:
        with self._changed:
            self._added += 1
            self._left[self._added] = sum(digest.size for digest in blobs_of(result))
            self._waiting.put((self._added, key, result))
            if self._added <= _THREADS:
                # A daemon, for what is under way when the build is interrupted is not to keep the program from ending.
                threading.Thread(target=self._work, name=f"upload-{self._added}", daemon=True).start()

    def wait(self, tell: Callable[[int, int], None]) -> None:
        """Until all of it is there. Told every second: how many results, and how many of their bytes, are not."""
        again = time.monotonic() + _TELL
        while True:
            with self._changed:
                while self._left and time.monotonic() < again:
                    self._changed.wait(again - time.monotonic())
                left = list(self._left.values())
            if not left:
                return
            tell(len(left), sum(left))
            again = time.monotonic() + _TELL

    def drop(self) -> None:
        """Begin nothing more. What is under way fails by itself when the connection is closed."""
        self._dropped = True
        for _ in range(_THREADS):
            self._waiting.put(None)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None and not self._dropped:
            number, key, result = job
            try:
                self._publish(key, result, partial(self._still, number))
            except Exception as error:
                # What publish() does not expect is a fault of ours; it is no reason to fail a build.
                if not self._dropped:
                    self._say(f"remote cache: an upload failed: {type(error).__name__}: {error}")
            with self._changed:
                del self._left[number]
                self._changed.notify_all()

    def _still(self, number: int, size: int) -> None:
        with self._changed:
            self._left[number] = size
