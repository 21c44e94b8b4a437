"""Stamps of the folders that Python imports from, which change when a package is installed or upgraded, and the files
of imported modules."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import all_suffixes
from pathlib import Path

# A folder's ctime, which no program can set back, its inode, and a digest of the relevant names in it.
Importable = tuple[int, int, str]

_MODULES = tuple(all_suffixes())

# Names that list installed distributions, or that Python reads at startup.
_INSTALLED = (".dist-info", ".egg-info", ".pth")

# Maximum number of entries that are searched for a module in a folder without an __init__.py.
_MOST = 1000


def import_path() -> list[str]:
    """Return the folders on Python's path."""
    return [path for path in map(os.path.abspath, filter(None, sys.path)) if os.path.isdir(path)]


def folders_of(package: Path) -> list[str]:
    """Return a package's folder and all folders below it."""
    found = []
    for folder, below, _ in os.walk(package):
        below[:] = _chosen(below)
        found.append(folder)
    return found


def imported_files() -> Iterator[str]:
    """Yield the files of all imported modules, or the archives that contain them, except Python's own modules."""
    own = f"{sysconfig.get_path('stdlib')}/"
    for module in list(sys.modules.values()):
        path = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(path, str) and not (path.startswith(own) and "-packages/" not in path):
            while not os.path.exists(path) and path != os.path.dirname(path):
                path = os.path.dirname(path)
            if os.path.isfile(path):
                yield path


def importable(folders: Iterable[str]) -> dict[str, Importable]:
    """Return the stamps of the importable names, by folder, without missing folders."""
    found = {}
    for folder in folders:
        try:
            status = os.stat(folder)  # before the listing: a concurrent change then counts as a change
        except OSError:
            continue
        names = stamps_in(folder)
        if names is not None:
            found[folder] = (status.st_ctime_ns, status.st_ino, names)
    return found


def stamps_in(folder: str) -> str | None:
    """Return a digest of the names in a folder that can change imports, and of the installation time of each
    distribution, because reinstalling the same version changes no name. None if the folder cannot be listed.

    Only names of modules, packages and installed distributions count: a checkout that Python imports from also contains
    other files and build folders.
    """
    try:
        with os.scandir(folder) as entries:
            texts = [f"{e.name} {_installed_at(e)}" for e in entries if _is_chosen(e.name) and _matters(e)]
    except OSError:
        return None
    return hashlib.sha256(os.fsencode("\0".join(sorted(texts)))).hexdigest()


def _installed_at(entry: os.DirEntry[str]) -> str:
    """Return mtime and inode of an entry that locates modules, such as an editable install's finder; '' for other
    entries."""
    if not entry.name.endswith(_INSTALLED) and not entry.name.startswith("__editable__"):
        return ""
    status = entry.stat()
    return f"{status.st_mtime_ns} {status.st_ino}"


def _chosen(names: Iterable[str]) -> list[str]:
    return list(filter(_is_chosen, names))


def _is_chosen(name: str) -> bool:
    """Return whether a name is neither byte code nor hidden."""
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
    """Return whether there is a module below a folder; importing a folder without modules gives an empty package. Also
    True if the search takes too long."""
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
