"""Locks between processes. The kernel lets go of them when a process ends, however it ends.

On a file system that has no locks nothing is locked: each single file is still written whole or not at all.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from modelbuild.store.files import ATTEMPTS, make_folder, open_up, remove


class UseLock:
    """Held shared by whoever uses a cache, alone by whoever throws things out of it.

    A process forked from a holder holds it too, until the holder lets go.
    """

    def __init__(self, path: Path) -> None:
        self._fd = -1
        with suppress(OSError):
            self._fd = _open(path)

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
def alone(path: Path, top: Path) -> Iterator[None]:
    """Hold a file's lock alone, waiting for it. The file is made if need be, with its folder, which is `top` or below
    it, and again if somebody removed it while we waited. Raises OSError."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            make_folder(top, path.parent)
            fd = _open(path)
        except (FileNotFoundError, NotADirectoryError):
            if attempt == ATTEMPTS or not os.path.isdir(top):
                raise
            continue
        try:
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX)
            if attempt == ATTEMPTS or _is_at(fd, path):
                yield
                return
        finally:
            os.close(fd)


def _open(path: Path) -> int:
    """A descriptor of a file to be locked, which replaces whatever is no file. Raises OSError."""
    with suppress(OSError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            remove(str(path))
    open_up(path, stat.S_IRUSR | stat.S_IWUSR)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            with suppress(OSError):
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # which can be locked as well
        raise


def _is_at(fd: int, path: Path) -> bool:
    try:
        there = os.stat(path)
    except OSError:
        return False
    return os.path.samestat(os.fstat(fd), there)
