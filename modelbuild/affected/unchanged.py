"""Detect unchanged parts from git's list of changed files, without loading."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

import modelbuild
from modelbuild.affected.git import Change
from modelbuild.workspace.workspace import BUILT_IN, LIBRARY, Workspace

# Lock files at the root of the workspace and of the repository.
LOCKS = ("requirements.lock", "requirements.txt", "uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")


def engine_folders(workspace: Workspace) -> Mapping[str, Path]:
    """Return the folders of modelbuild itself and of the rule packages imported by name, if installed."""
    names = dict.fromkeys([BUILT_IN, *(name for name in workspace.config.rules if name[:2] != "//"), LIBRARY])
    found = {"modelbuild": Path(modelbuild.__file__).parent}
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            found[name] = Path(spec.origin).parent
    return found


def changed_engine(workspace: Workspace, change: Change) -> str:
    """Return the reason why all targets are affected: one of these folders is in the repository and was changed. '' if
    none."""
    top = Path(os.path.realpath(change.top))
    for name, folder in engine_folders(workspace).items():
        real = Path(os.path.realpath(folder))
        if real.is_relative_to(top):
            below = f"{real.relative_to(top).as_posix()}/"
            if any(path.startswith(below) for path in change.changed):
                return f"{name}, on which every target depends, was changed"
    return ""
