"""The commit of a workspace, and whether the sources of a build differ from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from modelbuild.history.identity import ORIGIN, git, plain_address
from modelbuild.trust.commit_files import differing


@dataclass(frozen=True, slots=True)
class Revision:
    """The commit of a workspace.

    commit   the commit (hexadecimal)
    address  the repository's address without user and password; '' if it has no `origin`
    path     the workspace's path in the repository
    dirty    whether files of the workspace were changed, added or removed since, or a source of the build differs
    at       the commit's time in seconds since 1970
    changed  the sources of the build that differ from the commit, by path in the repository
    """

    commit: str
    address: str
    path: str
    dirty: bool
    at: int
    changed: tuple[str, ...] = ()


def find_revision(root: Path, sources: Mapping[str, str] | None = None) -> Revision | None:
    """Return the revision of a workspace; None outside of a git repository, or before its first commit. `sources` are
    the SHA-256 of the files that a build read, by absolute path; files outside the repository are in no commit."""
    commit, top = git(root, "rev-parse", "HEAD"), git(root, "rev-parse", "--show-toplevel")
    if not commit or not top:
        return None
    # git's status leaves out files that git ignores, and that it was told to assume unchanged; it does not decide.
    changed = git(root, "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none", "--", ".") != ""
    address = plain_address(git(root, *ORIGIN) or "")
    at = os.path.realpath(top)
    path = os.path.relpath(os.path.realpath(root), at)
    time = git(root, "show", "--no-patch", "--format=%ct", "HEAD")
    inside = {os.path.relpath(each, at): sha256 for each, sha256 in (sources or {}).items()}
    differ = differing(at, commit, {name: sha for name, sha in inside.items() if not name.startswith("../")})
    return Revision(commit, address, path, changed or bool(differ), int(time or 0), tuple(sorted(differ)))
