"""Blobs on disk, named by content: written once, read-only, and checked whenever they are used.

A blob's modification time carries a mark of its contents below the second: microseconds made from the hash. Whoever
writes to the file, say through a hard link in an output tree, sets another time. So a stat tells whether a blob is as
it was stored, with no table beside the files that a crash could leave behind or ahead of them. A machine that stops
may leave a file with the right size and time and without its bytes; so big blobs are forced to the disk before they
get their mark, and small ones are read and hashed at each use, which takes less than the forcing.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import TypeVar

from modelbuild.actions import Digest, FileEntry
from modelbuild.store.digests import FileChanged, digest_bytes, digest_open
from modelbuild.store.files import (
    ATTEMPTS,
    NO_FOLDER,
    NO_LINK,
    check_plain,
    copy_into,
    link_or_copy,
    make_folder,
    open_plain,
    remove,
)
from modelbuild.store.interface import MissingBlob

T = TypeVar("T")

_SECOND = 1_000_000_000
_SMALL = 16 << 10
_SUFFIX = {False: "", True: ".x"}
_MODE = {False: 0o444, True: 0o555}
_BUSY = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR)  # which says nothing of a file


def mark(hash_: str) -> int:
    """Nanoseconds below the second, whole microseconds and never 0, so that times cut to a second do not pass."""
    return (int(hash_[:8], 16) % 999_999 + 1) * 1000


class Cas:
    """A folder of blobs, and perhaps one below it that is only read.

    A blob lies at ab/<hash>, or at ab/<hash>.x where it is executable: hard links share their mode. Temporary files
    are made in `temporary`, which must be on the same file system, and beside `folder`. Whatever else is in the place
    of a blob or of a folder is removed; folders that are gone are made again.
    """

    def __init__(self, folder: Path, temporary: Path, lower: Path | None = None) -> None:
        self._top = str(folder.parent)
        self._folder = str(folder)
        self._temporary = str(temporary)
        self._folders = [str(f) for f in (folder, lower) if f is not None]
        self._lock = threading.Lock()
        self._added = 0
        self._ever_added = False
        for entry in _entries(self._folder):
            if entry.is_symlink():  # which would lead to files that are not ours
                _remove(entry.path)

    def find(self, digest: Digest, executable: bool | None = None) -> str:
        """Path of a sound blob with that executable bit (None: with either). Raises MissingBlob."""
        for wanted in (False, True) if executable is None else (executable,):
            for folder in self._folders:
                path = _path(folder, digest.hash, wanted)
                if _sound(path, digest, wanted):
                    return path
        raise MissingBlob(digest)

    def has(self, digest: Digest, executable: bool | None = None) -> bool:
        try:
            self.find(digest, executable)
        except MissingBlob:
            return False
        return True

    def path(self, digest: Digest, executable: bool) -> str:
        """As find, but made from the other one if only that is here."""
        try:
            return self.find(digest, executable)
        except MissingBlob:
            other = self.find(digest)
            self.add_copy(other, executable)
            return self.find(digest, executable)

    def read(self, digest: Digest) -> bytes:
        """A blob's bytes, always hashed: they are in memory anyway. Raises MissingBlob."""
        for executable in (False, True):
            for folder in self._folders:
                path = _path(folder, digest.hash, executable)
                data = _read(path)
                if data is not None and digest_bytes(data) == digest:
                    return data
                _mend(path, digest, executable)
        raise MissingBlob(digest)

    def add_bytes(self, data: bytes) -> Digest:
        digest = digest_bytes(data)
        if not self.has(digest):
            _again(lambda: self._write(data, digest))
        return digest

    def add_copy(self, path: str, executable: bool) -> FileEntry:
        """Keep a copy of a file. Raises OSError when it cannot be read."""
        return _again(lambda: self._copy(path, executable))

    def add_file(self, path: Path) -> FileEntry:
        """Take a file over; it is gone from `path` afterwards. Raises ValueError for anything but a plain file."""
        status = os.lstat(path)
        check_plain(status.st_mode, path.name)
        executable = bool(status.st_mode & 0o100)
        # A file with another hard link may be somebody's source: its mode and time are not ours to change.
        if status.st_nlink == 1:
            if not status.st_mode & 0o400:
                os.chmod(path, _MODE[executable])
            try:
                return self._add(str(path), executable)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
        entry = self.add_copy(str(path), executable)
        _remove(str(path))
        return entry

    def link(self, entry: FileEntry, destination: str) -> None:
        """Lay one file out at a path that does not exist. Raises MissingBlob."""
        source = self.path(entry.digest, entry.executable)
        try:
            link_or_copy(source, destination, _MODE[entry.executable])
        except FileNotFoundError:
            if os.path.lexists(source):
                raise
            raise MissingBlob(entry.digest) from None

    def scan(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Every file, by the name that it has in its folder."""
        for folder in chain.from_iterable(map(_entries, self._folders)):
            if folder.is_dir(follow_symlinks=False):
                for entry in _entries(folder.path):
                    yield entry.name, entry

    @property
    def ever_added(self) -> bool:
        """Whether this process brought anything in."""
        return self._ever_added

    def take_added(self) -> int:
        """Bytes of new blobs since this was last asked."""
        with self._lock:
            added, self._added = self._added, 0
            return added

    def _write(self, data: bytes, digest: Digest) -> None:
        temporary = self._new()
        try:
            with FileIO(temporary, "x") as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                _seal(file, digest.hash, False)
            self._install(temporary, digest, False)
        finally:
            _remove(temporary)

    def _copy(self, path: str, executable: bool) -> FileEntry:
        temporary = self._new()
        try:
            copy_into(path, temporary, _MODE[executable])
            return self._add(temporary, executable)
        finally:
            _remove(temporary)

    def _add(self, path: str, executable: bool) -> FileEntry:
        with open_plain(path) as file:
            digest = digest_open(file)
            if not self.has(digest, executable):
                _seal(file, digest.hash, executable)
                self._install(path, digest, executable)
        _remove(path)
        return FileEntry(digest, executable)

    def _install(self, path: str, digest: Digest, executable: bool) -> None:
        target = _path(self._folder, digest.hash, executable)
        for attempt in range(ATTEMPTS):
            try:
                _link_or_move(path, target)
            except (FileExistsError, IsADirectoryError):
                if _sound(target, digest, executable):
                    return  # Another build was quicker.
                remove(target)
            except OSError as error:
                if attempt and (error.errno not in NO_FOLDER or not os.path.lexists(path)):
                    raise
                self._make_folder(os.path.dirname(target))
            else:
                break
        with self._lock:
            self._added += digest.size
            self._ever_added = True

    def _new(self) -> str:
        self._make_folder(self._temporary)
        return f"{self._temporary}/{os.getpid()}-{os.urandom(8).hex()}"

    def _make_folder(self, path: str) -> None:
        make_folder(self._top, path)


def _again(work: Callable[[], T]) -> T:
    """Do some work with new files; once more when somebody removed them meanwhile, as whoever empties a cache does."""
    for _ in range(ATTEMPTS - 1):
        with suppress(FileNotFoundError):
            return work()
    return work()


def hash_of(name: str) -> str:
    """The hash in the name of a blob's file."""
    return name.removesuffix(_SUFFIX[True])


def check(path: str, name: str) -> bool:
    """Rehash a blob's file whatever its time says; drop it when it is wrong. Whether it was right."""
    try:
        size = os.lstat(path).st_size
    except OSError:
        return False
    return _mend(path, Digest(hash_of(name), size), name.endswith(_SUFFIX[True]))


def _path(folder: str, hash_: str, executable: bool) -> str:
    return f"{folder}/{hash_[:2]}/{hash_}{_SUFFIX[executable]}"


def _sound(path: str, digest: Digest, executable: bool) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    sealed = (
        status.st_size == digest.size
        and status.st_mtime_ns % _SECOND == mark(digest.hash)
        and status.st_mode == stat.S_IFREG | _MODE[executable]
    )
    if sealed and digest.size > _SMALL:
        return True
    return (sealed and digest_bytes(_read(path) or b"") == digest) or _mend(path, digest, executable)


def _read(path: str) -> bytes | None:
    try:
        with open_plain(path) as file:
            return file.readall()
    except OSError:
        return None


def _mend(path: str, digest: Digest, executable: bool) -> bool:
    """Rehash a blob that somebody touched: seal it again when its bytes are right, else drop it, as whatever else is
    in its place. Whether it is what the digest says."""
    try:
        with open_plain(path) as file:
            found = digest_open(file)
            if found.hash == digest.hash:
                with suppress(OSError):  # A read-only cache: as good as before.
                    _seal(file, digest.hash, executable)
                return found == digest
            # Another process may have dropped it and put a right one in its place since.
            if os.path.samestat(os.lstat(path), os.fstat(file.fileno())):
                os.unlink(path)
    except (FileNotFoundError, NotADirectoryError, FileChanged):
        pass
    except OSError as error:
        if error.errno not in _BUSY:
            with suppress(OSError):  # A read-only cache.
                remove(path)
    return False


def _seal(file: FileIO, hash_: str, executable: bool) -> None:
    """Bytes to the disk first, then the mark that vouches for them. The time is a second old, so that no clock is
    ahead of it, and later writes show whatever the clock's step."""
    if os.fstat(file.fileno()).st_size > _SMALL:
        os.fsync(file.fileno())
    os.fchmod(file.fileno(), _MODE[executable])
    seconds = time.time_ns() // _SECOND - 1
    os.utime(file.fileno(), ns=(seconds * _SECOND, seconds * _SECOND + mark(hash_)))


def _link_or_move(path: str, target: str) -> None:
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        os.rename(path, target)


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
