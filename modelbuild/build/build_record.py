"""What a finished build looked at and left behind, so that the next one can tell that nothing is to be done.

The null path: this imports next to nothing that Python has not imported at its start. A record is one file: a checksum
of all that follows, integers as the machine has them, then texts, each ended by a NUL byte.
"""

from __future__ import annotations

import os
import stat
import time
from binascii import crc32
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeVar

    _T = TypeVar("_T")

_MAGIC = b"modelbuild record 4\n"
_SUM = 4  # bytes of the checksum

# A folder that was listed: its path, its ctime, its inode, a digest of the names in it.
Listed = tuple[str, int, int, str]

# A target that was built: its label, its configuration's name and its outputs, relative to the workspace.
BuiltOutputs = tuple[str, str, tuple[str, ...]]


class Stamps:
    """Paths, absolute or relative to the workspace, and for each what tells that it is as it was. Columns, because that
    is the quickest to read. Modes are those of outputs; a file's ctime shows another mode."""

    __slots__ = ("inodes", "modes", "paths", "sizes", "times")

    def __init__(
        self,
        paths: Sequence[str],
        sizes: Sequence[int],
        times: Sequence[int],
        inodes: Sequence[int],
        modes: Sequence[int] = (),
    ) -> None:
        self.paths = paths
        self.sizes = sizes
        self.times = times
        self.inodes = inodes
        self.modes = modes


class Record:
    """One build. `moved` says that folders' times are no longer those that are written down.

    files    what was read: size, ctime (which a change of the executable bit moves as well), inode
    outputs  each file that was laid out: size, mtime (a new hard link elsewhere moves the ctime), inode, mode
    imports  folders that Python imports from: ctime (0: compare the names), inode, a digest of what is to import there
    folders  what was listed: ctime (0: compare the names), inode, a digest of the names
    present  where a regular file was relied on that was not read
    absent   where it was relied on that there is no regular file
    token    what else is kept of this build has the same
    """

    __slots__ = ("absent", "actions", "files", "folders", "imports", "moved", "outputs", "present", "targets", "token")

    def __init__(
        self,
        files: Stamps,
        outputs: Stamps,
        imports: list[Listed],
        folders: list[Listed],
        present: Sequence[str],
        absent: Sequence[str],
        targets: Sequence[BuiltOutputs],
        actions: int,
        token: int = 0,
    ) -> None:
        self.files = files
        self.outputs = outputs
        self.imports = imports
        self.folders = folders
        self.present = present
        self.absent = absent
        self.targets = targets
        self.actions = actions
        self.token = token
        self.moved = False

    def holds(self, root: str) -> bool:
        """Whether all of it is as it was."""
        folder = -1
        try:
            folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
            return self._files_hold(folder) and self.surroundings_hold(root, folder)
        except OSError:  # what was there is not
            return False
        finally:
            if folder >= 0:
                os.close(folder)

    def _files_hold(self, folder: int) -> bool:
        # The one place where a microsecond counts: it is done for every file.
        stat = os.stat
        known = self.files
        for path, size, then, inode in zip(known.paths, known.sizes, known.times, known.inodes, strict=True):
            now = stat(path, dir_fd=folder)
            if now.st_ctime_ns != then or now.st_size != size or now.st_ino != inode:
                return False
        known = self.outputs
        rows = zip(known.paths, known.sizes, known.times, known.inodes, known.modes, strict=True)
        for path, size, then, inode, mode in rows:
            now = stat(path, dir_fd=folder)
            if now.st_mtime_ns != then or now.st_size != size or now.st_ino != inode or now.st_mode != mode:
                return False
        return True

    def surroundings_hold(self, root: str, folder: int) -> bool:
        """Whether all but files and outputs is as it was. `folder` is the root, open. Raises OSError."""
        for listed, names_in in ((self.imports, _importable), (self.folders, _names)):
            for index, (path, then, inode, names) in enumerate(listed):
                now = os.stat(path or ".", dir_fd=folder)
                if now.st_ctime_ns != then or now.st_ino != inode:
                    if names_in(root, path) != names:
                        return False
                    listed[index] = (path, _settled(now.st_ctime_ns), now.st_ino, names)
                    self.moved = True
        isfile = os.path.isfile
        return all(isfile(f"{root}/{p}") for p in self.present) and not any(isfile(f"{root}/{p}") for p in self.absent)


def _names(root: str, folder: str) -> str | None:
    from modelbuild.errors import EnvironmentProblem
    from modelbuild.loading.tree import list_folder

    try:
        return list_folder(root, folder).stamp().names
    except EnvironmentProblem:
        return None


def _importable(_: str, folder: str) -> str | None:
    from modelbuild.build.import_folders import stamps_in

    return stamps_in(folder)


def _settled(time_ns: int) -> int:
    from modelbuild.times import settled

    return settled(time_ns, time.time_ns())


def up_to_date(path: str, root: str) -> Record | None:
    """The record in a file if all that it says of a workspace still holds."""
    record = read_record(path)
    if record is None or not record.holds(root):
        return None
    keep_times(path, record)
    return record


def keep_times(path: str, record: Record) -> None:
    """Write down the times of folders that moved, which saves the next build from listing them."""
    if record.moved:
        from contextlib import suppress

        with suppress(OSError):
            write_record(path, record)


def read_record(path: str) -> Record | None:
    """None when there is none, or one that another version wrote."""
    data = read_regular(path)
    start = len(_MAGIC) + _SUM
    content = data[start:]
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != crc32(content).to_bytes(_SUM):
        return None
    return _decode(content)


def read_regular(path: str) -> bytes:
    """What is in a regular file; nothing where there is none, or something else that might never end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return b""
    with open(descriptor, "rb") as file:
        return file.read()


def write_record(path: str, record: Record) -> None:
    """Raises OSError. The file appears whole or not at all."""
    data = _encode(record)
    write_whole(path, _MAGIC + crc32(data).to_bytes(_SUM) + data)


def write_whole(path: str, data: bytes) -> None:
    """Write a file that appears whole or not at all, in place of whatever is there. Raises OSError."""
    from modelbuild.store.files import remove

    temporary = f"{path}.{os.getpid()}"
    remove(temporary)
    with open(temporary, "xb") as file:
        file.write(data)
    try:
        os.replace(temporary, path)
    except IsADirectoryError:
        remove(path)
        os.replace(temporary, path)


def _encode(record: Record) -> bytes:
    from array import array

    files, outputs = record.files, record.outputs
    lists = (record.imports, record.folders)
    numbers = array("q")
    for column in (files.sizes, files.times, files.inodes, outputs.sizes, outputs.times, outputs.inodes, outputs.modes):
        numbers.extend(column)
    for listed in lists:
        numbers.extend(time for _, time, _, _ in listed)
        numbers.extend(inode for _, _, inode, _ in listed)
    numbers.extend(len(given) for _, _, given in record.targets)
    texts: list[str] = [*files.paths, *outputs.paths]
    for listed in lists:
        texts.extend(path for path, _, _, _ in listed)
        texts.extend(names for _, _, _, names in listed)
    texts.extend(record.present)
    texts.extend(record.absent)
    texts.extend(label for label, _, _ in record.targets)
    texts.extend(config for _, config, _ in record.targets)
    texts.extend(path for _, _, given in record.targets for path in given)
    counts = array("q", map(len, (files.paths, outputs.paths, *lists, record.present, record.absent, record.targets)))
    counts.extend((record.actions, record.token, len(numbers)))
    return counts.tobytes() + numbers.tobytes() + os.fsencode("".join(f"{text}\0" for text in texts))


def _decode(data: bytes) -> Record:
    counts = _integers(data, 0, 10)
    files, outputs, imports, folders, present, absent, targets, actions, token, size = counts
    start = 8 * len(counts)
    numbers = iter(_integers(data, start, size))
    texts = iter(os.fsdecode(data[start + 8 * size :]).split("\0"))
    read = Stamps(_take(texts, files), *(_take(numbers, files) for _ in range(3)))
    laid_out = Stamps(_take(texts, outputs), *(_take(numbers, outputs) for _ in range(4)))
    imported, listed = (
        list(zip(_take(texts, n), _take(numbers, n), _take(numbers, n), _take(texts, n), strict=True))
        for n in (imports, folders)
    )
    there, missing, labels, configs = (_take(texts, count) for count in (present, absent, targets, targets))
    built = [
        (label, config, tuple(_take(texts, count)))
        for label, config, count in zip(labels, configs, _take(numbers, targets), strict=True)
    ]
    return Record(read, laid_out, imported, listed, there, missing, built, actions, token)


def _integers(data: bytes, start: int, count: int) -> list[int]:
    numbers: list[int] = memoryview(data)[start : start + 8 * count].cast("q").tolist()
    return numbers


def _take(values: Iterator[_T], count: int) -> list[_T]:
    return list(islice(values, count))
