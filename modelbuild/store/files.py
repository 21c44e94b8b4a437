"""Copy and link files, and replace anything at a path by a folder or file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from modelbuild.paths import check_path

# Errors of link(2) where links are impossible: other file system, too many links, another owner, unsupported.
NO_LINK = (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS)
# Errors of any call for a path with a missing folder, or with something else in its place.
NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
ATTEMPTS = 100  # attempts at work that another process may undo
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_COPY_RANGE = (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.ETXTBSY, errno.EPERM)


def check_plain(mode: int, name: str) -> None:
    """Raise ValueError, with that name, for the mode of anything but a plain file."""
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
        raise ValueError(f"{name} is {kind}; an output is made of plain files and folders")


def open_plain(path: str) -> FileIO:
    """Open a file for reading. Raises OSError for anything but a regular file: a symbolic link is not followed (ELOOP),
    and a pipe or a device might never end (ENOTSUP)."""
    return FileIO(path, opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.ENOTSUP, "not a regular file", path)


@contextmanager
def open_folder(top: str | int, path: str = "") -> Iterator[int]:
    """Open the folder `path` below `top`, a folder's path or descriptor. Follows no symbolic link from the last name of
    `top` on. Raises OSError for a link or something that is not a folder (ELOOP, ENOTDIR), and PathError for a path
    that leaves `top`."""
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
    """Return the path of a name in an open folder, valid even if the folder is moved."""
    return Path(f"/proc/self/fd/{folder}/{name}")


def copy_into(source: str, target: str, mode: int) -> None:
    """Copy a file's bytes to a path that does not exist; shares blocks if the file system supports it."""
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
    """Create a hard link, or a copy with the same modification time, at a path that does not exist."""
    try:
        os.link(source, target)
        return
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
    copy_into(source, target, mode)
    status = os.stat(source)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def make_folder(top: str | Path, path: str | Path) -> None:
    """Make a folder that is `top` or below it, and its parents. Everything below `top` belongs to modelbuild: anything
    else in the place of a folder there is removed, such as a link, and a folder without permissions is made usable.
    Raises OSError."""
    top, path = str(top), str(path)
    if path == top:
        try:
            os.makedirs(path, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        return
    for attempt in range(ATTEMPTS):
        try:
            os.mkdir(path)
            return
        except FileExistsError:
            if os.path.isdir(path) and not os.path.islink(path):
                open_up(path, stat.S_IRWXU)
                return
            remove(path)
        except OSError as error:
            if attempt and error.errno not in NO_FOLDER:
                raise
            make_folder(top, os.path.dirname(path))
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def open_up(path: str | Path, mode: int) -> None:
    """Add permissions for the current user to the file at a path, unless it is a link or has another owner."""
    with suppress(OSError):
        status = os.lstat(path)
        if status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode) and status.st_mode & mode != mode:
            os.chmod(path, stat.S_IMODE(status.st_mode) | mode)


def remove(path: str) -> None:
    """Remove a file or a folder with all its contents, including read-only folders. Symbolic links are not followed.
    Concurrent removals are not errors, and files that appear meanwhile stay."""
    waiting = [(path, False)]
    while waiting:
        each, emptied = waiting.pop()
        with suppress(FileNotFoundError):
            if emptied:
                _remove_empty(each)
            elif not stat.S_ISDIR(os.lstat(each).st_mode):
                os.unlink(each)
            else:
                os.chmod(each, stat.S_IRWXU)
                waiting.append((each, True))
                with os.scandir(each) as entries:
                    waiting += [(entry.path, False) for entry in entries]


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
