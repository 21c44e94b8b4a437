"""The commit of a workspace, and whether its files differ from it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from modelbuild.history.identity import plain_address


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit (hexadecimal), with its time in seconds since 1970; the repository's address without user and password
    ('' if it has no `origin`); the workspace's path in the repository; and whether files of the workspace were changed,
    added or removed since."""

    commit: str
    address: str
    path: str
    dirty: bool
    at: int


def find_revision(root: Path) -> Revision | None:
    """Return the revision of a workspace; None outside of a git repository, or before its first commit."""
    commit, top = _git(root, "rev-parse", "HEAD"), _git(root, "rev-parse", "--show-toplevel")
    if not commit or not top:
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none", "--", ".")
    address = plain_address(_git(root, "config", "--get", "remote.origin.url"))
    path = os.path.relpath(os.path.realpath(root), os.path.realpath(top))
    time = _git(root, "show", "--no-patch", "--format=%ct", "HEAD")
    return Revision(commit, address, path, bool(changed), int(time or 0))


def _git(root: Path, *arguments: str) -> str:
    """Return the output of git; '' if it fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError:
        return ""
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else ""
