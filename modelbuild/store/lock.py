"""Locks between processes. The kernel releases them when a process ends, for any reason.

On a file system without locks, nothing is locked; each file is still written completely or not at all.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from modelbuild.store.files import ATTEMPTS, make_folder, open_up, remove


class UseLock:
    """Held shared by processes that use a cache, exclusively by a process that evicts from it.

    A process forked from a holder also holds it, until the holder releases it.
    """

    def __init__(self, path: Path) -> None:
        self._fd = -1
        with suppress(OSError):
            self._fd = _open(path)

    def share(self) -> None:
        """Take the lock shared; waits for an exclusive holder."""
        if self._fd >= 0:
            with suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Take the lock exclusively. Returns whether that succeeded; if not, the lock is released."""
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


class KeyLocks:
    """Locks by key between the builds that use a cache: a byte of one file for each key (fcntl(2), locks of open
    file descriptions). Threads of one build do not exclude each other. Where the file cannot be locked, nobody waits.
    """

    def __init__(self, path: Path) -> None:
        self._fd = -1
        with suppress(OSError):
            self._fd = _open(path)

    @contextmanager
    def held(self, key: str, wait: Callable[[], bool]) -> Iterator[None]:
        """Hold the lock of a key, a SHA-256 in hexadecimal. While another build holds it, call `wait`, which pauses;
        continue without the lock when that returns False."""
        while not self._lock(fcntl.F_WRLCK, key) and wait():
            pass
        try:
            yield
        finally:
            self._lock(fcntl.F_UNLCK, key)

    def _lock(self, kind: int, key: str) -> bool:
        """Return False if another build holds the lock."""
        place = int(key[:15], 16)  # two keys with the same byte only wait for each other
        try:
            # struct flock: type, whence, start, length, process
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0))
        except (OSError, ValueError) as error:
            return not (isinstance(error, OSError) and error.errno in (errno.EAGAIN, errno.EACCES))
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def exclusive(path: Path, top: Path) -> Iterator[None]:
    """Hold a file's lock exclusively, waiting for it. The file is created if needed, with its folder, which is `top` or
    below it, and again if another process removed it during the wait. Raises OSError."""
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
    """Open a file for locking; replaces anything that is not a regular file. Raises OSError."""
    with suppress(OSError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            remove(str(path))
    open_up(path, stat.S_IRUSR | stat.S_IWUSR)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            with suppress(OSError):
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # sufficient for a lock
        raise


def _is_at(fd: int, path: Path) -> bool:
    try:
        there = os.stat(path)
    except OSError:
        return False
    return os.path.samestat(os.fstat(fd), there)
