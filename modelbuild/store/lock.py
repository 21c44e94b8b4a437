"""Locks between processes. The kernel lets go of them when a process ends, however it ends.

On a file system that has no locks nothing is locked: each single file is still written whole or not at all.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class UseLock:
    """Held shared by whoever uses a cache, alone by whoever throws things out of it.

    A process forked from a holder holds it too, until the holder lets go.
    """

    def __init__(self, path: Path) -> None:
        self._fd = -1
        for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):  # A read-only cache can still be shared.
            with suppress(OSError):
                self._fd = os.open(path, flags | os.O_CLOEXEC, 0o666)
                return

    def share(self) -> None:
        """Waits while somebody holds the lock alone."""
        if self._fd >= 0:
            with suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_SH)

    def try_alone(self) -> bool:
        """Whether the lock is now held alone. If not, it is not held at all."""
        if self._fd < 0:
            return False
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            return False
        return True

    def release(self) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        self.release()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a file's lock alone, waiting for it. The file is made if need be, with its folder, and again if somebody
    removed it while we waited."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            continue
        except FileExistsError as error:
            if os.path.lexists(error.filename) and not os.path.isdir(error.filename):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), error.filename) from None
            continue
        try:
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX)
            if _is_at(fd, path):
                yield
                return
        finally:
            os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), there)
