"""Write files that a user names: each has all of its old contents or all of its new ones, also if the disk is full."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path

from modelbuild.errors import EnvironmentProblem, UsageError

# Errors of a disk, which another path on the same disk would have too.
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# Files of the kernel may be links to files that other programs have open, such as /dev/stdout.
_KERNELS = ("/dev/", "/proc/")

_BESIDE = ".modelbuild-"
BESIDE = rf"^{re.escape(_BESIDE)}[0-9a-f]{{16}}$"
"""A pattern of the names of files that replace others soon."""


def write_file(path: Path, data: bytes | str) -> None:
    """Replace a file's contents. Symbolic links stay, and so do its mode and owner. Pipes, devices and files in folders
    that may not be written are written in place. Text is written as UTF-8.

    Raises UsageError for a path that cannot be written, and EnvironmentProblem for a disk that is full or fails.
    """
    with _replacing(path) as file:
        file.write(_bytes(data))


def copy_file(source: Path, path: Path) -> None:
    """Replace a file's contents by those of another file. Raises as write_file does."""
    with source.open("rb") as other, _replacing(path) as file:
        shutil.copyfileobj(other, file)


def begin_file(path: Path, data: bytes) -> BufferedWriter:
    """Replace a file's contents like write_file, and return the open file to continue."""
    with _replacing(path) as file:
        file.write(data)
        file.flush()
        return os.fdopen(os.dup(file.fileno()), "wb")


def append_file(path: Path, text: str) -> None:
    """Append to a file, completely or not at all. Raises as write_file does."""
    with explained(path), path.open("ab", buffering=0) as file:
        size, rest = file.tell(), memoryview(_bytes(text))
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(file.fileno(), size)
            raise


def check_file(path: Path) -> None:
    """Raise UsageError for a path that cannot be written. Writes nothing."""
    with explained(path):
        found = _mode(path)
        if found is None:
            parent = os.path.dirname(os.path.realpath(path))
            os.stat(parent)
            error = 0 if os.access(parent, os.W_OK | os.X_OK) else errno.EACCES
        else:
            error = errno.EISDIR if stat.S_ISDIR(found) else 0 if os.access(path, os.W_OK) else errno.EACCES
        if error:
            raise OSError(error, os.strerror(error))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise UsageError or EnvironmentProblem for an OSError about a file."""
    try:
        yield
    except OSError as error:
        kind = EnvironmentProblem if error.errno in _OF_THE_DISK else UsageError
        raise kind(f"{path}: {error.strerror}") from None


def _bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode(errors="backslashreplace")


@contextmanager
def _replacing(path: Path) -> Iterator[BufferedWriter]:
    with explained(path):
        mode, real = _mode(path), os.path.realpath(path)
        folder = os.path.dirname(real)
        special = mode is not None and (not stat.S_ISREG(mode) or os.path.abspath(path).startswith(_KERNELS))
        if special or (mode is not None and not os.access(folder, os.W_OK | os.X_OK)):
            with open(path, "wb") as file:
                yield file
            return
        beside = f"{folder}/{_BESIDE}{os.urandom(8).hex()}"
        with open(beside, "xb") as file:
            try:
                if mode is not None:
                    _copy_access(real, file.fileno())
                yield file
                file.close()  # which may be the first call that reports a full disk
                os.replace(beside, real)
            except BaseException:
                os.unlink(beside)
                raise


def _mode(path: Path) -> int | None:
    """Return the mode of a file or of a link's target; None if it is missing."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _copy_access(path: str, descriptor: int) -> None:
    status = os.stat(path)
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    with suppress(PermissionError):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
