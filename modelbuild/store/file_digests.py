"""Cached digests of the workspace's files, so that an unchanged file is not read again."""

from __future__ import annotations

import os
import stat
import time
from binascii import crc32
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from io import FileIO
from pathlib import Path

from modelbuild.actions import Digest, FileEntry
from modelbuild.errors import EnvironmentProblem
from modelbuild.store.database import Database
from modelbuild.store.digests import FileChanged, digest_open
from modelbuild.store.file_systems import devices_without_ctimes
from modelbuild.times import granularity

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Equal stamps mean an unchanged file, except on some file systems (see file_systems.py) and after stores through a
    mapping. ctime changes with every call that writes, even if mtime is restored, and no program can set it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    def __str__(self) -> str:
        return f"{self.size}.{self.mtime_ns}.{self.ctime_ns}.{self.inode}"


@dataclass(frozen=True, slots=True)
class FileState:
    """A file of the workspace: its bytes, its executable bit, and its stamp when the bytes were read. `hashed`: they
    were read just now."""

    digest: Digest
    executable: bool
    stamp: FileStamp
    hashed: bool = field(default=False, compare=False)

    @property
    def entry(self) -> FileEntry:
        return FileEntry(self.digest, self.executable)


class FileDigests:
    """Digests by path. `clock`: nanoseconds since 1970. No stamp of a file on `unsafe` devices is trusted."""

    def __init__(
        self, database: Database, clock: Callable[[], int] = time.time_ns, unsafe: Collection[int] | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._unsafe = devices_without_ctimes() if unsafe is None else unsafe

    def digest(self, path: Path, verify: bool = False) -> FileState:
        """Return the state of one file; symbolic links are followed. With `verify`, it is read even if its stamp is
        known. Raises FileNotFoundError, IsADirectoryError, and
        EnvironmentProblem for something that is neither a file nor a folder, or that keeps changing."""
        status = os.stat(path)
        _check_kind(path, status)
        name = os.fsencode(os.path.abspath(path))
        known = not verify and status.st_dev not in self._unsafe
        hash_ = self._stored(name, str(_stamp(status))) if known else None
        if hash_ is not None:
            return _state(Digest(hash_, status.st_size), status)
        recorded, status, digest = self._read(path)
        row = (name, str(_stamp(status)), recorded, digest.hash)
        self._database.write(("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", [(*row, _checksum(*row))]))
        return replace(_state(digest, status), hashed=True)

    def forget_missing(self) -> None:
        """Delete the rows of files that no longer exist."""
        rows = self._database.read("SELECT path FROM files") or []
        gone = [row for row in rows if not isinstance(row[0], bytes) or not os.path.exists(row[0])]
        if gone:
            self._database.write(("DELETE FROM files WHERE path = ?", gone))

    def _stored(self, name: bytes, stamp: str) -> str | None:
        """Return the stored hash for a path and a stamp, or None.

        A file that changed within the clock's granularity before it was read may have changed again with the same stamp
        (git calls such an entry racy), so it is read again.
        """
        sql = "SELECT recorded, hash, checksum FROM files WHERE path = ? AND stamp = ?"
        for recorded, hash_, checksum in self._database.read(sql, [name, stamp]) or ():
            ctime = int(stamp.split(".")[2])
            if checksum == _checksum(name, stamp, recorded, hash_) and ctime + granularity(ctime) < recorded:
                return str(hash_)
        return None

    def _read(self, path: Path) -> tuple[int, os.stat_result, Digest]:
        """Hash a file. Returns the start time, and the file's status, which is equal before and after."""
        for _ in range(_ATTEMPTS):
            recorded = self._clock()
            with FileIO(os.fspath(path)) as file:
                status = os.fstat(file.fileno())
                try:
                    digest = digest_open(file)
                except FileChanged:
                    continue
                if _stamp(os.fstat(file.fileno())) == _stamp(status):
                    return recorded, status, digest
        raise EnvironmentProblem(f"{path} keeps changing while it is read; build again when it is complete")


def _checksum(name: bytes, stamp: str, recorded: int, hash_: str) -> int:
    """Return a checksum of a row. SQLite has none, and a damaged digest would count as the file's."""
    return crc32(f"{stamp} {recorded} {hash_}".encode(errors="replace"), crc32(name))


def _stamp(status: os.stat_result) -> FileStamp:
    return FileStamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _state(digest: Digest, status: os.stat_result) -> FileState:
    return FileState(digest, bool(status.st_mode & 0o100), _stamp(status))


def _check_kind(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{path} is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise EnvironmentProblem(f"{path} is neither a file nor a folder")
