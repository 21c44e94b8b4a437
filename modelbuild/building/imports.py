"""Folders that Python imports from, and what can be imported there: installing or upgrading a package changes it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

# When a folder last changed (its ctime, which no program can set back), and a digest of the names in it.
Importable = tuple[int, str]


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
            changed = os.stat(folder).st_ctime_ns  # before the listing: what changes meanwhile is then seen as a change
        except OSError:
            continue
        names = names_in(folder)
        if names is not None:
            found[folder] = (changed, names)
    return found


def names_in(folder: str) -> str | None:
    """A digest of the names in a folder, but for what Python and other tools put there themselves and nobody can
    import; None when it cannot be listed."""
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    return hashlib.sha256(os.fsencode("\0".join(sorted(_chosen(names))))).hexdigest()


def _chosen(names: Iterable[str]) -> list[str]:
    """All but byte code and hidden names."""
    return [name for name in names if name != "__pycache__" and not name.startswith(".")]
