"""The files of an artifact: a regular file, or a folder of regular files, and nothing else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from modelbuild.lines import one_line
from modelbuild.store.files import open_plain

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotPlain(Exception):
    """An artifact contains something that a signature cannot cover. The message is one line."""


def artifact_files(path: Path) -> dict[str, Path]:
    """Return a file by its name, or all files of a folder by their paths in it, sorted.

    Raises NotPlain for anything in the folder but regular files and folders with files, because a list of files with
    digests contains nothing else, and for a path that is neither a file nor a folder. Raises OSError for what cannot be
    read. Opens no file and follows no link below `path`.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return {each.relative_to(path).as_posix(): each for each in sorted(_below(path))}
    if not stat.S_ISREG(mode):
        raise NotPlain(f"{one_line(str(path))} is {_kind(mode)}; expected a file or a folder")
    return {path.name: path}


def _below(folder: Path) -> Iterator[Path]:
    folders = [folder]
    while folders:
        at = folders.pop()
        with os.scandir(at) as found:
            entries = list(found)
        if not entries:
            raise NotPlain(f"{one_line(str(at))} is an empty folder; expected folders with files")
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry))
            elif entry.is_file(follow_symlinks=False):
                yield Path(entry)
            else:
                kind = _kind(entry.stat(follow_symlinks=False).st_mode)
                raise NotPlain(f"{one_line(entry.path)} is {kind}; expected only files and folders in a folder")


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "neither a file nor a folder")


def read_plain(path: Path) -> bytes:
    """Return the bytes of a file, or of the file that a link leads to. Raises OSError for anything but a regular file,
    without waiting for a pipe's writer."""
    with open_plain(os.path.realpath(path)) as file:
        return file.readall()
