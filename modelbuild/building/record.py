"""What a finished build looked at and left behind, so that the next one can tell that nothing is to be done.

The null path: this imports nothing that Python has not imported at its start. A record is one file: integers as the
machine has them, then texts, each ended by a NUL byte.
"""

from __future__ import annotations

import os
import time
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeVar

    _T = TypeVar("_T")

_MAGIC = b"modelbuild record 3\n"

# A folder that was listed: its path, when it last changed, a digest of the names in it.
Listed = tuple[str, int, str]

# A target that was built: its label, its configuration's name and its outputs, relative to the workspace.
BuiltOutputs = tuple[str, str, tuple[str, ...]]


class Stamps:
    """Paths, absolute or relative to the workspace, and for each what tells that it is as it was. Columns, because that
    is the quickest to read."""

    __slots__ = ("inodes", "paths", "sizes", "times")

    def __init__(self, paths: Sequence[str], sizes: Sequence[int], times: Sequence[int], inodes: Sequence[int]) -> None:
        self.paths = paths
        self.sizes = sizes
        self.times = times
        self.inodes = inodes


class Record:
    """One build. `moved` says that folders' times are no longer those that are written down.

    files    what was read: size, ctime (which a change of the executable bit moves as well), inode
    outputs  what was laid out: size, mtime (a new hard link elsewhere moves the ctime), inode
    imports  folders that Python imports from: path, ctime (0: compare the names), a digest of what is to import there
    folders  what was listed: path, mtime (0: compare the names), a digest of the names
    absent   files whose absence was relied on
    token    what else is kept of this build has the same
    """

    __slots__ = ("absent", "actions", "files", "folders", "imports", "moved", "outputs", "targets", "token")

    def __init__(
        self,
        files: Stamps,
        outputs: Stamps,
        imports: list[Listed],
        folders: list[Listed],
        absent: Sequence[str],
        targets: Sequence[BuiltOutputs],
        actions: int,
        token: int = 0,
    ) -> None:
        self.files = files
        self.outputs = outputs
        self.imports = imports
        self.folders = folders
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
        for path, size, then, inode in zip(known.paths, known.sizes, known.times, known.inodes, strict=True):
            now = stat(path, dir_fd=folder)
            if now.st_mtime_ns != then or now.st_size != size or now.st_ino != inode:
                return False
        return True

    def surroundings_hold(self, root: str, folder: int) -> bool:
        """Whether all but files and outputs is as it was. `folder` is the root, open. Raises OSError."""
        for index, (path, then, names) in enumerate(self.imports):
            changed = os.stat(path).st_ctime_ns
            if changed != then:
                if _importable(path) != names:
                    return False
                self.imports[index] = (path, _settled(changed), names)
                self.moved = True
        for index, (path, then, names) in enumerate(self.folders):
            changed = os.stat(path or ".", dir_fd=folder).st_mtime_ns
            if changed != then:
                if _names(root, path) != names:
                    return False
                self.folders[index] = (path, _settled(changed), names)
                self.moved = True
        return not any(os.path.isfile(f"{root}/{path}") for path in self.absent)


def _names(root: str, folder: str) -> str | None:
    from modelbuild.errors import EnvironmentProblem
    from modelbuild.loading.tree import list_folder

    try:
        return list_folder(root, folder).stamp().names
    except EnvironmentProblem:
        return None


def _importable(folder: str) -> str | None:
    from modelbuild.building.imports import names_in

    return names_in(folder)


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
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    return _decode(data) if data.startswith(_MAGIC) and data.endswith(b"\0") else None


def write_record(path: str, record: Record) -> None:
    """Raises OSError. The file appears whole or not at all."""
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "wb") as file:
        file.write(_encode(record))
    os.replace(temporary, path)


def _encode(record: Record) -> bytes:
    from array import array

    groups = (record.files, record.outputs)
    lists = (record.imports, record.folders)
    numbers = array("q")
    for group in groups:
        for column in (group.sizes, group.times, group.inodes):
            numbers.extend(column)
    for listed in lists:
        numbers.extend(time for _, time, _ in listed)
    numbers.extend(len(outputs) for _, _, outputs in record.targets)
    texts: list[str] = []
    for group in groups:
        texts.extend(group.paths)
    for listed in lists:
        texts.extend(path for path, _, _ in listed)
        texts.extend(names for _, _, names in listed)
    texts.extend(record.absent)
    texts.extend(label for label, _, _ in record.targets)
    texts.extend(config for _, config, _ in record.targets)
    counts = array("q", [len(group.paths) for group in groups])
    counts.extend(map(len, (*lists, record.absent, record.targets)))
    counts.extend((record.actions, record.token, len(numbers)))
    return _MAGIC + counts.tobytes() + numbers.tobytes() + os.fsencode("".join(f"{text}\0" for text in texts))


def _decode(data: bytes) -> Record | None:
    try:
        counts = _integers(data, len(_MAGIC), 9)
        files, outputs, imports, folders, absent, targets, actions, token, size = counts
        start = len(_MAGIC) + 8 * len(counts)
        numbers = iter(_integers(data, start, size))
        texts = iter(os.fsdecode(data[start + 8 * size :]).split("\0")[:-1])
        read, laid_out = (
            Stamps(_take(texts, count), *(_take(numbers, count) for _ in range(3))) for count in (files, outputs)
        )
        imported, listed = (
            list(zip(_take(texts, count), _take(numbers, count), _take(texts, count), strict=True))
            for count in (imports, folders)
        )
        lengths = _take(numbers, targets)
        missing, labels, configs = _take(texts, absent), _take(texts, targets), _take(texts, targets)
        paths = iter(laid_out.paths)
        built = [
            (label, config, tuple(_take(paths, n))) for label, config, n in zip(labels, configs, lengths, strict=True)
        ]
        return Record(read, laid_out, imported, listed, missing, built, actions, token)
    except (ValueError, TypeError):  # cut short
        return None


def _integers(data: bytes, start: int, count: int) -> list[int]:
    numbers: list[int] = memoryview(data)[start : start + 8 * count].cast("q").tolist()
    if len(numbers) != count:
        raise ValueError("cut short")
    return numbers


def _take(values: Iterator[_T], count: int) -> list[_T]:
    taken = list(islice(values, count))
    if len(taken) != count:
        raise ValueError("cut short")
    return taken
