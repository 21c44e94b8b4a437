"""Digests of the workspace's files, remembered, so that an unchanged file is not read again."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from modelbuild.actions import Digest, FileEntry
from modelbuild.errors import EnvironmentProblem
from modelbuild.store.database import Database
from modelbuild.store.digests import FileChanged, digest_open

_ATTEMPTS = 3
_BATCH = 500  # SQLite takes at least 999 values in one statement.


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What tells that a file is as it was. ctime changes with every write, also when mtime is put back after it;
    no program can set it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    def __str__(self) -> str:
        return f"{self.size}.{self.mtime_ns}.{self.ctime_ns}.{self.inode}"


@dataclass(frozen=True, slots=True)
class FileState:
    """A file of the workspace: its bytes, its executable bit, and the stamp it had when they were read."""

    digest: Digest
    executable: bool
    stamp: FileStamp

    @property
    def entry(self) -> FileEntry:
        return FileEntry(self.digest, self.executable)


class FileDigests:
    """Digests by path. `clock`: nanoseconds since 1970."""

    def __init__(self, database: Database, clock: Callable[[], int] = time.time_ns) -> None:
        self._database = database
        self._clock = clock

    def digest(self, path: Path) -> FileState:
        """The state of one file; symbolic links are followed. Raises FileNotFoundError, IsADirectoryError, and
        EnvironmentProblem for what is neither file nor folder or never stops changing."""
        return self._states({path: os.stat(path)})[path]

    def digest_all(self, paths: Iterable[Path]) -> dict[Path, FileState]:
        """As digest, of many at once. Paths where nothing is are left out."""
        there = {}
        for path in paths:
            try:
                there[path] = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
        return self._states(there)

    def forget_missing(self) -> None:
        """Forget files that are not there any more."""
        rows = self._database.read("SELECT path FROM files") or []
        gone = [row for row in rows if not os.path.exists(row[0])]
        if gone:
            self._database.write(("DELETE FROM files WHERE path = ?", gone))

    def _states(self, there: dict[Path, os.stat_result]) -> dict[Path, FileState]:
        names = {path: os.fsencode(os.path.abspath(path)) for path in there}
        known = self._known(list(names.values()))
        states = {}
        rows = []
        for path, status in there.items():
            _check_kind(path, status)
            hash_ = known.get((names[path], str(_stamp(status))))
            if hash_ is None:
                recorded, status, digest = self._read(path)
                rows.append((names[path], str(_stamp(status)), recorded, digest.hash))
            else:
                digest = Digest(hash_, status.st_size)
            states[path] = FileState(digest, bool(status.st_mode & 0o100), _stamp(status))
        if rows and self._database.writable:
            self._database.write(("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", rows))
        return states

    def _known(self, names: list[bytes]) -> dict[tuple[bytes, str], str]:
        """Hashes by path and stamp, of those rows that can be trusted.

        A file that changed so shortly before it was read that the file system's clock had not moved on may have
        changed again without its stamp showing it (git calls such an entry racy): it is read again.
        """
        known = {}
        for start in range(0, len(names), _BATCH):
            batch = names[start : start + _BATCH]
            marks = ",".join("?" * len(batch))
            sql = f"SELECT path, stamp, recorded, hash FROM files WHERE path IN ({marks})"
            for name, stamp, recorded, hash_ in self._database.read(sql, batch) or ():
                ctime = int(stamp.split(".")[2])
                if ctime + _granularity(ctime) < recorded:
                    known[name, stamp] = hash_
        return known

    def _read(self, path: Path) -> tuple[int, os.stat_result, Digest]:
        """Hash a file: when that began, and the file's status, the same before and after."""
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


def _stamp(status: os.stat_result) -> FileStamp:
    return FileStamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _granularity(ctime_ns: int) -> int:
    """Nanoseconds by which a file system's clock may lag: two ticks of the slowest kernel timer where there are
    parts of a second at all, else the 2 s of FAT."""
    return 50_000_000 if ctime_ns % 1_000_000_000 else 2_000_000_000


def _check_kind(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{path} is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise EnvironmentProblem(f"{path} is neither a file nor a folder")
