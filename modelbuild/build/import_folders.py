"""Stamps of the folders that Python imports from, which change when a package is installed or upgraded."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from importlib.machinery import all_suffixes
from pathlib import Path

# A folder's ctime, which no program can set back, its inode, and a digest of the relevant names in it.
Importable = tuple[int, int, str]

_MODULES = tuple(all_suffixes())

# What says which distributions are installed, and what Python reads when it starts.
_INSTALLED = (".dist-info", ".egg-info", ".pth")

# How many files and folders are looked at for a module in a folder that is no package.
_MOST = 1000


def import_path() -> list[str]:
    """The folders on Python's path."""
    return [path for path in map(os.path.abspath, filter(None, sys.path)) if os.path.isdir(path)]


def folders_of(package: Path) -> list[str]:
    """A package's folder and those below it."""
    found = []
    for folder, below, _ in os.walk(package):
        below[:] = _chosen(below)
        found.append(folder)
    return found


def importable(folders: Iterable[str]) -> dict[str, Importable]:
    """What there is to import, by folder; nothing of a folder that is not there."""
    found = {}
    for folder in folders:
        try:
            status = os.stat(folder)  # before the listing: what changes meanwhile is then seen as a change
        except OSError:
            continue
        names = stamps_in(folder)
        if names is not None:
            found[folder] = (status.st_ctime_ns, status.st_ino, names)
    return found


def stamps_in(folder: str) -> str | None:
    """Return a digest of the names in a folder that can change what is imported, and of when each distribution was
    installed: to install another of its version changes no name. None when the folder cannot be listed.

    The names are those of modules, packages and installed distributions. A checkout that Python imports from has other
    files too, and folders that builds put there.
    """
    try:
        with os.scandir(folder) as entries:
            texts = [f"{e.name} {_installed_at(e)}" for e in entries if _is_chosen(e.name) and _matters(e)]
    except OSError:
        return None
    return hashlib.sha256(os.fsencode("\0".join(sorted(texts)))).hexdigest()


def _installed_at(entry: os.DirEntry[str]) -> str:
    """Of what says where modules are, as an editable install's finder does, too."""
    if not entry.name.endswith(_INSTALLED) and not entry.name.startswith("__editable__"):
        return ""
    status = entry.stat()
    return f"{status.st_mtime_ns} {status.st_ino}"


def _chosen(names: Iterable[str]) -> list[str]:
    return list(filter(_is_chosen, names))


def _is_chosen(name: str) -> bool:
    """Whether it is neither byte code nor hidden."""
    return name != "__pycache__" and not name.startswith(".")


def _matters(entry: os.DirEntry[str]) -> bool:
    if entry.name.endswith(_INSTALLED):
        return True
    if not entry.is_dir():
        return entry.name.endswith(_MODULES)
    if not entry.name.isidentifier():
        return False
    return os.path.exists(f"{entry.path}/__init__.py") or _gives_modules(entry.path)


def _gives_modules(folder: str) -> bool:
    """Whether there is a module below a folder, which without any is empty when it is imported. True as well for what
    takes long to tell."""
    waiting, seen = [folder], 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MOST or entry.name.endswith(_MODULES):
                        return True
                    if entry.is_dir() and _is_chosen(entry.name):
                        waiting.append(entry.path)
        except OSError:
            return True
    return False
