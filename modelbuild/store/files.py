"""Copying and linking files, and removing whatever is at a path."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from modelbuild.paths import check_path

# What link(2) says where links cannot be: other file system, too many links, not one's own file, no such thing.
NO_LINK = (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_COPY_RANGE = (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.ETXTBSY, errno.EPERM)


def check_plain(mode: int, name: str) -> None:
    """Raises ValueError, with that name, for the mode of anything but a plain file."""
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
        raise ValueError(f"{name} is {kind}; an output is made of plain files and folders")


def open_plain(path: str) -> FileIO:
    """Open a file to read. A symbolic link is not followed: it raises OSError (ELOOP)."""
    return FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK))


@contextmanager
def open_folder(top: str | int, path: str = "") -> Iterator[int]:
    """Open the folder `path` below `top`, a folder's path or descriptor. No symbolic link is followed from the last
    name of `top` on: there, and where something is no folder, it raises OSError (ELOOP, ENOTDIR); and PathError for a
    path that leaves `top`."""
    names = check_path(path).split("/") if path else ()
    descriptor = os.open(top, _FOLDER) if isinstance(top, str) else os.dup(top)
    try:
        for name in names:
            inner = os.open(name, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def path_in(folder: int, name: str) -> Path:
    """The path of a name in an open folder, wherever that folder has been moved to."""
    return Path(f"/proc/self/fd/{folder}/{name}")


def copy_into(source: str, target: str, mode: int) -> None:
    """Copy a file's bytes to a path that does not exist; on file systems that can, without copying a block."""
    with open_plain(source) as a, FileIO(target, "x") as b:
        try:
            while os.copy_file_range(a.fileno(), b.fileno(), 1 << 30):
                pass
        except OSError as error:
            if error.errno not in _NO_COPY_RANGE:
                raise
            import shutil

            shutil.copyfileobj(a, b, 1 << 20)
        os.fchmod(b.fileno(), mode)


def link_or_copy(source: str, target: str, mode: int) -> None:
    """A hard link, or a copy with the same modification time, at a path that does not exist."""
    try:
        os.link(source, target)
        return
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
    copy_into(source, target, mode)
    status = os.stat(source)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def remove(path: str) -> None:
    """Remove a file or a folder with all that is in it, read-only folders too. Symbolic links are not followed; what
    somebody else removes meanwhile is no error, and what somebody puts there meanwhile stays."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
        os.chmod(path, 0o700)
        with os.scandir(path) as entries:
            inside = [entry.path for entry in entries]
        for entry in inside:
            remove(entry)
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
