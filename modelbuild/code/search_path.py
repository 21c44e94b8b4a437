"""The folders that Python imports from, in this process and in steps."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path


def search_path() -> list[str]:
    """Return the folders that this process imports from, except the folder of its main program, which must not affect
    results."""
    entries = sys.path
    if not sys.flags.safe_path and entries and entries[0] in ("", os.getcwd(), os.path.dirname(_program())):
        entries = entries[1:]
    # An entry that is not a path is a finder's own name.
    return list(dict.fromkeys(os.path.abspath(entry) if os.path.exists(entry) else entry for entry in entries))


def _program() -> str:
    return os.path.realpath(sys.argv[0]) if sys.argv and sys.argv[0] else ""


def import_path(workspace: Path) -> list[str]:
    """Return the folders that steps import from: the folders of Python's own modules and of installed distributions.
    Folders that contain the workspace, or are inside it, are excluded; a virtual environment in the workspace counts as
    outside. Modules of other folders are laid out for the actions that have them in their keys."""
    root = os.path.realpath(workspace)
    inside = [prefix for prefix in map(os.path.realpath, (sys.prefix, sys.base_prefix)) if under(prefix, root)]

    def foreign(entry: str) -> bool:
        real = os.path.realpath(entry)
        return any(under(real, prefix) for prefix in inside) or not (under(real, root) or under(root, real))

    return [entry for entry in search_path() if foreign(entry) and (_is_pythons(entry) or _has_installed(entry))]


def _is_pythons(entry: str) -> bool:
    """Return whether a folder contains Python's own modules, or packages installed next to them."""
    own = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return entry in own or os.path.dirname(entry) in own or os.path.basename(entry) in (archive, "dist-packages")


def _has_installed(entry: str) -> bool:
    return any(name.endswith(".dist-info") for name in os.listdir(entry)) if os.path.isdir(entry) else False


def under(path: str, folder: str) -> bool:
    """Return whether a path is the folder or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
