"""A build's own part of the folder in which actions get theirs."""

from __future__ import annotations

import fcntl
import itertools
import os
import tempfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from modelbuild.execution.sandbox import Sandbox, remove
from modelbuild.store.files import open_folder
from modelbuild.store.lock import exclusive


class Scratch:
    """A build's own part of the folder where sandboxes are made. What builds that were killed left there is removed.

    A folder is used again for another action once nothing is left in it that an action could have changed: making one
    takes as long as forking on some file systems, the more so the more were removed just before.
    """

    def __init__(self, folder: Path, keep: bool = False) -> None:
        stale: list[tuple[Path, int]] = []
        with exclusive(folder / "lock", folder):
            self.path = Path(tempfile.mkdtemp(prefix="kept-" if keep else "build-", dir=folder.resolve()))
            lock = _try_lock(self.path)
            assert lock is not None
            self._lock = lock
            for other in folder.glob("build-*"):
                if other.name != self.path.name and (left := _try_lock(other)) is not None:
                    stale.append((other, left))
        for other, left in stale:
            remove(other)
            os.close(left)
        self._keep = keep
        self._numbers = itertools.count()
        self._emptied: deque[Sandbox] = deque()
        self._emptying = ThreadPoolExecutor(1, "empty")

    def new(self) -> Sandbox:
        with suppress(IndexError):
            while True:
                sandbox = self._emptied.pop()
                if sandbox.folder.is_dir():  # which somebody may have removed
                    return sandbox
        return Sandbox(self.path / str(next(self._numbers)))

    def discard(self, sandbox: Sandbox) -> None:
        """Empty it soon, unless it is to be kept: nothing has to wait for that."""
        if not self._keep:
            self._emptying.submit(self._empty, sandbox)

    def close(self) -> None:
        """Remove all of it, unless it is to be kept."""
        self._emptying.shutdown(cancel_futures=True)
        if not self._keep:
            remove(self.path)
        os.close(self._lock)

    def _empty(self, sandbox: Sandbox) -> None:
        if sandbox.emptied():
            self._emptied.append(sandbox)
        else:
            remove(sandbox.folder)


def _try_lock(folder: Path) -> int | None:
    """A locked descriptor for a build's folder, or None while that build lives, and for what is no build's folder."""
    try:
        with open_folder(str(folder)) as top:
            descriptor = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=top)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
