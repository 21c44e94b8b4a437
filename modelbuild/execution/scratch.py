"""A build's folder for the sandboxes of its actions."""

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
    """A build's subfolder of the folder for sandboxes. Leftovers of killed builds are removed.

    A sandbox is reused for another action, without everything that an action could have changed. On some file systems,
    making a folder takes as long as forking, especially after the removal of many folders.
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
                if sandbox.folder.is_dir():  # unless another program removed it
                    return sandbox
        return Sandbox(self.path / str(next(self._numbers)))

    def discard(self, sandbox: Sandbox) -> None:
        """Empty a sandbox in the background, unless sandboxes are kept."""
        if not self._keep:
            self._emptying.submit(self._empty, sandbox)

    def close(self) -> None:
        """Remove all sandboxes, unless they are kept."""
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
    """Return a locked descriptor for a build's folder; None while that build runs, and for other files."""
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
