"""What is the same at both revisions: told from git's list of changed files, without loading anything."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

import modelbuild
from modelbuild.affected.git import Change
from modelbuild.code.tools import Tools
from modelbuild.workspace.workspace import BUILT_IN, LIBRARY, WORKSPACE_FILE, Workspace

REGULAR = ("100644", "100755")

# Lock files, looked for at the root of the workspace and of the repository.
LOCKS = ("requirements.lock", "requirements.txt", "uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")

# More than their own content depends on what is in these.
_MORE = frozenset((*LOCKS, "BUILD.toml", WORKSPACE_FILE, ".gitattributes"))


def only_contents(change: Change) -> bool:
    """Whether each changed file is one that was there and is there still, and none is known to decide more."""
    return all(
        change.files.get(path) in REGULAR
        and path.rpartition("/")[2] not in _MORE
        and not (change.top / path).is_symlink()
        and (change.top / path).is_file()
        for path in change.changed
    )


def changes_local(workspace: Workspace, change: Change) -> bool:
    """Whether a changed file can be of a local module: which targets that touches depends on what all code imports."""
    tools = Tools(workspace.root, ())
    return any(map(tools.may_be_local, change.changed_files()))


def engine_folders(workspace: Workspace) -> Mapping[str, Path]:
    """The folders of modelbuild itself and of the rule packages that are imported by name, as far as they are there."""
    names = dict.fromkeys([BUILT_IN, *(name for name in workspace.config.rules if name[:2] != "//"), LIBRARY])
    found = {"modelbuild": Path(modelbuild.__file__).parent}
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            found[name] = Path(spec.origin).parent
    return found


def changed_engine(workspace: Workspace, change: Change) -> str:
    """Why all targets are touched: one of these folders lies in the repository and was changed. '' when none was."""
    top = Path(os.path.realpath(change.top))
    for name, folder in engine_folders(workspace).items():
        real = Path(os.path.realpath(folder))
        if real.is_relative_to(top):
            below = f"{real.relative_to(top).as_posix()}/"
            if any(path.startswith(below) for path in change.changed):
                return f"{name}, which makes every target, was changed"
    return ""
