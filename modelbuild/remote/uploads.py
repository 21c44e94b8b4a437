"""Bringing results to a remote cache while the build goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from modelbuild.actions import ActionResult

# One is kept waiting by a slow line while another reads the disk; more would take the line from downloads.
_THREADS = 2


class Uploads:
    """A queue of results. It holds digests; bytes are read from the local store when their turn comes."""

    def __init__(self, publish: Callable[[str, ActionResult], None], say: Callable[[str], None]) -> None:
        self._publish = publish
        self._say = say
        self._dropped = False
        self._pool = ThreadPoolExecutor(_THREADS, "upload")

    def add(self, key: str, result: ActionResult) -> None:
        self._pool.submit(self._publish, key, result).add_done_callback(self._check)

    def _check(self, done: Future[None]) -> None:
        """What publish() does not expect is a fault of ours; it is no reason to fail a build."""
        error = None if done.cancelled() else done.exception()
        if error is not None and not self._dropped:
            self._say(f"remote cache: an upload failed: {type(error).__name__}: {error}")

    def wait(self) -> None:
        """Until all of it is there."""
        self._pool.shutdown()

    def drop(self) -> None:
        """Begin nothing more. What is under way fails by itself when the connection is closed."""
        self._dropped = True
        self._pool.shutdown(wait=False, cancel_futures=True)
