"""The record of a finished build: its inputs and outputs, for the next build to find that nothing changed.

A build with nothing to do runs this module, so it imports little beyond Python's own startup. A record is one file: a
checksum of the rest, integers in the machine's format, then texts, each followed by a NUL byte.
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

_MAGIC = b"modelbuild record 6\n"
_SUM = 4  # bytes of the checksum

# A listed folder: its path, ctime, inode, and a digest of its names.
Listed = tuple[str, int, int, str]

# A built target: its label, its configuration's name, its outputs, relative to the workspace, and its toolchain.
BuiltOutputs = tuple[str, str, tuple[str, ...], str]


class Stamps:
    """Paths, absolute or relative to the workspace, and their stamps, in columns, which are the fastest to read. Only
    outputs have modes; a file's ctime changes with its mode."""

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


class Surroundings:
    """Everything that decides a build, except the contents of files. `moved`: times of folders or files differ from the
    stored times.

    imports  folders that Python imports from: ctime (0: compare the names), inode, a digest of the importable names
    folders  folders that were listed: ctime (0: compare the names), inode, a digest of the names
    present  paths where a regular file was required but not read
    absent   paths where no regular file was required
    """

    __slots__ = ("absent", "folders", "imports", "moved", "present")

    def __init__(
        self, imports: list[Listed], folders: list[Listed], present: Sequence[str], absent: Sequence[str]
    ) -> None:
        self.imports = imports
        self.folders = folders
        self.present = present
        self.absent = absent
        self.moved = False

    def are_current(self, root: str, folder: int) -> bool:
        """Return whether nothing changed. `folder` is the open root. Raises OSError."""
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


class Record:
    """One build.

    files    files that were read: size, ctime (which also changes with the executable bit), inode
    outputs  files that were laid out: size, mtime below the second (a new hard link elsewhere changes the rest, and the
             ctime), inode, mode
    token    equal to the token in other files about this build
    """

    __slots__ = ("actions", "files", "outputs", "surroundings", "targets", "token")

    def __init__(
        self,
        files: Stamps,
        outputs: Stamps,
        surroundings: Surroundings,
        targets: Sequence[BuiltOutputs],
        actions: int,
        token: int = 0,
    ) -> None:
        self.files = files
        self.outputs = outputs
        self.surroundings = surroundings
        self.targets = targets
        self.actions = actions
        self.token = token

    def is_current(self, root: str) -> bool:
        """Return whether nothing changed."""
        folder = -1
        try:
            folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
            return self._stamps_are_current(folder) and self.surroundings.are_current(root, folder)
        except OSError:  # something is missing
            return False
        finally:
            if folder >= 0:
                os.close(folder)

    def changes(self, root: str) -> tuple[set[str], set[str]] | None:
        """Return the changed files and outputs; None if something else changed, or a file is no longer a regular
        file."""
        from modelbuild.times import below_second

        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if not self.surroundings.are_current(root, folder):
                return None
            files, outputs = set(), set()
            known = self.files
            for path, size, then, inode in zip(known.paths, known.sizes, known.times, known.inodes, strict=True):
                now = os.stat(path, dir_fd=folder)
                if (now.st_size, now.st_ctime_ns, now.st_ino) != (size, then, inode):
                    if not stat.S_ISREG(now.st_mode):
                        return None
                    files.add(path)
            known = self.outputs
            rows = zip(known.paths, known.sizes, known.times, known.inodes, known.modes, strict=True)
            for path, *then_all in rows:
                try:
                    now = os.stat(path, dir_fd=folder)
                except OSError:
                    outputs.add(path)
                    continue
                if [now.st_size, below_second(now.st_mtime_ns), now.st_ino, now.st_mode] != then_all:
                    outputs.add(path)
            return files, outputs
        except OSError:
            return None
        finally:
            os.close(folder)

    def _stamps_are_current(self, folder: int) -> bool:
        # Performance-critical: runs for every file.
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
            below = now.st_mtime_ns % 1_000_000_000 or now.st_mtime_ns  # times.below_second(), without an import
            if below != then or now.st_size != size or now.st_ino != inode or now.st_mode != mode:
                return False
        return True


def _names(root: str, folder: str) -> str | None:
    from modelbuild.errors import EnvironmentProblem
    from modelbuild.loading.tree import list_folder

    try:
        return list_folder(root, folder).stamp().names
    except EnvironmentProblem:
        return None


def _importable(_: str, folder: str) -> str | None:
    from modelbuild.build_record.import_folders import stamps_in

    return stamps_in(folder)


def _settled(time_ns: int) -> int:
    from modelbuild.times import settled

    return settled(time_ns, time.time_ns())


def up_to_date(path: str, root: str) -> Record | None:
    """Return the record in a file if it is current for a workspace, else None."""
    record = read_record(path)
    if record is None or not record.is_current(root):
        return None
    keep_times(path, record)
    return record


def keep_times(path: str, record: Record) -> None:
    """Save changed times, so that the next build need neither list the folders nor read the files."""
    if record.surroundings.moved:
        from contextlib import suppress

        with suppress(OSError):
            write_record(path, record)


def read_record(path: str) -> Record | None:
    """Return the record in a file; None if the file is missing or has another version."""
    data = read_regular(path)
    start = len(_MAGIC) + _SUM
    content = data[start:]
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != crc32(content).to_bytes(_SUM):
        return None
    return _decode(content)


def read_regular(path: str) -> bytes:
    """Return the bytes of a regular file; empty for a missing file or anything else, which might never end."""
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
    """Write a record. Raises OSError. The file appears complete or not at all."""
    data = _encode(record)
    write_whole(path, _MAGIC + crc32(data).to_bytes(_SUM) + data)


def write_whole(path: str, data: bytes) -> None:
    """Write a file, which appears complete or not at all, and replaces anything at its path. Raises OSError."""
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

    files, outputs, around = record.files, record.outputs, record.surroundings
    lists = (around.imports, around.folders)
    numbers = array("q")
    for column in (files.sizes, files.times, files.inodes, outputs.sizes, outputs.times, outputs.inodes, outputs.modes):
        numbers.extend(column)
    for listed in lists:
        numbers.extend(time for _, time, _, _ in listed)
        numbers.extend(inode for _, _, inode, _ in listed)
    numbers.extend(len(given) for _, _, given, _ in record.targets)
    texts: list[str] = [*files.paths, *outputs.paths]
    for listed in lists:
        texts.extend(path for path, _, _, _ in listed)
        texts.extend(names for _, _, _, names in listed)
    texts.extend(around.present)
    texts.extend(around.absent)
    texts.extend(label for label, _, _, _ in record.targets)
    texts.extend(config for _, config, _, _ in record.targets)
    texts.extend(toolchain for _, _, _, toolchain in record.targets)
    texts.extend(path for _, _, given, _ in record.targets for path in given)
    counts = array("q", map(len, (files.paths, outputs.paths, *lists, around.present, around.absent, record.targets)))
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
    there, missing = _take(texts, present), _take(texts, absent)
    labels, configs, toolchains = (_take(texts, targets) for _ in range(3))
    built = [
        (label, config, tuple(_take(texts, count)), toolchain)
        for label, config, toolchain, count in zip(labels, configs, toolchains, _take(numbers, targets), strict=True)
    ]
    return Record(read, laid_out, Surroundings(imported, listed, there, missing), built, actions, token)


def _integers(data: bytes, start: int, count: int) -> list[int]:
    numbers: list[int] = memoryview(data)[start : start + 8 * count].cast("q").tolist()
    return numbers


def _take(values: Iterator[_T], count: int) -> list[_T]:
    return list(islice(values, count))
