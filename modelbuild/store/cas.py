"""Blobs on disk, named by content: written once, read-only, and checked on every use.

A blob's modification time carries a mark of its contents below the second: microseconds derived from the hash. Any
write to the file, for example through a hard link in an output tree, sets another time. So a stat shows that a blob is
intact, without a separate table that a crash could leave out of date. After a power failure, a file may have the right
size and time but not its bytes. Therefore big blobs are synced to the disk before they get their mark. Small blobs are
read and hashed on every use, which is faster than syncing.
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
_BUSY = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR)  # errors unrelated to the file


def mark(hash_: str) -> int:
    """Return nanoseconds below the second: whole microseconds, never 0, so that a time truncated to a second has no
    mark."""
    return (int(hash_[:8], 16) % 999_999 + 1) * 1000


def at_second(time_ns: int, now: int) -> int:
    """Return a blob's time with its mark at the first second at which it is not before `now`."""
    return now + (time_ns - now) % _SECOND


def is_sealed(path: str) -> bool:
    """Return whether a file is a link to a blob or a copy by place(), and unchanged since."""
    try:
        with open_plain(path) as file:
            status = os.fstat(file.fileno())
            sealed = stat.S_IMODE(status.st_mode) in _MODE.values() and status.st_mtime_ns % _SECOND
            return bool(sealed) and sealed == mark(digest_open(file).hash)
    except (OSError, FileChanged):
        return False


class Cas:
    """A folder of blobs.

    A blob is at ab/<hash>, or at ab/<hash>.x if executable, because hard links share their mode. Temporary files are
    created in `temporary`, which must be on the same file system, and next to `folder`. Anything else in the place of a
    blob or a folder is removed; missing folders are created again.
    """

    def __init__(self, folder: Path, temporary: Path) -> None:
        self._top = str(folder.parent)
        self._folder = str(folder)
        self._temporary = str(temporary)
        self._lock = threading.Lock()
        self._added = 0
        self._ever_added = False
        for entry in _entries(self._folder):
            if entry.is_symlink():  # it would lead to files outside the cache
                _remove(entry.path)

    def find(self, digest: Digest, executable: bool | None = None) -> str:
        """Return the path of an intact blob with that executable bit (None: with either). Raises MissingBlob."""
        for wanted in (False, True) if executable is None else (executable,):
            path = _path(self._folder, digest.hash, wanted)
            if _is_intact(path, digest, wanted):
                return path
        raise MissingBlob(digest)

    def has(self, digest: Digest, executable: bool | None = None) -> bool:
        try:
            self.find(digest, executable)
        except MissingBlob:
            return False
        return True

    def path(self, digest: Digest, executable: bool) -> str:
        """Like find, but copies the blob with the other executable bit if only that exists."""
        try:
            return self.find(digest, executable)
        except MissingBlob:
            other = self.find(digest)
            self.add_copy(other, executable)
            return self.find(digest, executable)

    def read(self, digest: Digest) -> bytes:
        """Return a blob's bytes. Always checks the hash, because the bytes are in memory anyway. Raises MissingBlob."""
        for executable in (False, True):
            path = _path(self._folder, digest.hash, executable)
            data = _read(path)
            if data is not None and digest_bytes(data) == digest:
                return data
            _verify_blob(path, digest, executable)
        raise MissingBlob(digest)

    def add_bytes(self, data: bytes) -> Digest:
        digest = digest_bytes(data)
        if not self.has(digest):
            _retry(lambda: self._write(data, digest))
        return digest

    def add_copy(self, path: str, executable: bool) -> FileEntry:
        """Store a copy of a file. Raises OSError if it cannot be read."""
        return _retry(lambda: self._copy(path, executable))

    def add_file(self, path: Path) -> FileEntry:
        """Move a file into the store. Raises ValueError for anything but a plain file."""
        status = os.lstat(path)
        check_plain(status.st_mode, path.name)
        executable = bool(status.st_mode & 0o100)
        # A file with another hard link may be a user's source, so its mode and time stay unchanged.
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
        """Lay out one file at a path that does not exist. Raises MissingBlob."""
        source = self.path(entry.digest, entry.executable)
        try:
            link_or_copy(source, destination, _MODE[entry.executable])
        except FileNotFoundError:
            if os.path.lexists(source):
                raise
            raise MissingBlob(entry.digest) from None

    def scan(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield every file with its name in its folder."""
        for folder in _entries(self._folder):
            if folder.is_dir(follow_symlinks=False):
                for entry in _entries(folder.path):
                    yield entry.name, entry

    @property
    def ever_added(self) -> bool:
        """Return whether this process added a blob."""
        return self._ever_added

    def take_added(self) -> int:
        """Return the bytes of new blobs since the last call."""
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
                if _is_intact(target, digest, executable):
                    return  # Another build was faster.
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


def _retry(work: Callable[[], T]) -> T:
    """Call `work`; retry if another process, such as a cache cleanup, removed its files meanwhile."""
    for _ in range(ATTEMPTS - 1):
        with suppress(FileNotFoundError):
            return work()
    return work()


def hash_of(name: str) -> str:
    """Return the hash in the name of a blob's file."""
    return name.removesuffix(_SUFFIX[True])


def check(path: str, name: str) -> bool:
    """Rehash a blob's file regardless of its time, and delete it if it is damaged. Returns whether it was intact."""
    try:
        size = os.lstat(path).st_size
    except OSError:
        return False
    return _verify_blob(path, Digest(hash_of(name), size), name.endswith(_SUFFIX[True]))


def _path(folder: str, hash_: str, executable: bool) -> str:
    return f"{folder}/{hash_[:2]}/{hash_}{_SUFFIX[executable]}"


def _is_intact(path: str, digest: Digest, executable: bool) -> bool:
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
    return (sealed and digest_bytes(_read(path) or b"") == digest) or _verify_blob(path, digest, executable)


def _read(path: str) -> bytes | None:
    try:
        with open_plain(path) as file:
            return file.readall()
    except OSError:
        return None


def _verify_blob(path: str, digest: Digest, executable: bool) -> bool:
    """Rehash a blob with an unexpected stat: seal it again if its bytes match, else delete it or anything in its place.
    Returns whether it matches the digest."""
    try:
        with open_plain(path) as file:
            found = digest_open(file)
            if found.hash == digest.hash:
                with suppress(OSError):  # another user's: still usable
                    _seal(file, digest.hash, executable)
                return found == digest
            # Another process may have replaced it with an intact blob since.
            if os.path.samestat(os.lstat(path), os.fstat(file.fileno())):
                os.unlink(path)
    except (FileNotFoundError, NotADirectoryError, FileChanged):
        pass
    except OSError as error:
        if error.errno not in _BUSY:
            with suppress(OSError):  # another user's
                remove(path)
    return False


def _seal(file: FileIO, hash_: str, executable: bool) -> None:
    """Sync the bytes to the disk, then set the mark that certifies them. The time is one second in the past, so that no
    clock is behind it, and later writes show with any clock granularity."""
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
