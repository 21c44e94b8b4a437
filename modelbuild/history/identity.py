"""A workspace's identity in the history: equal in every clone of its repository, different in other repositories."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path

from modelbuild.redaction import without_secrets

# Arguments of git.
ORIGIN = ("config", "--get", "remote.origin.url")
# git@host:path
_SCP = re.compile(r"(?:[^@/:]+@)?([^/:]+):(?!//)(.+)\Z")


@cache
def identity(root: Path) -> str:
    """Return a digest of the repository's remote address and of the workspace's path in it, or of the absolute path if
    there is no remote. Not of the first commit: CI systems clone without it."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    address = "" if top is None else plain_address(git(top, *ORIGIN) or "")
    name = f"{address}//{root.relative_to(top).as_posix()}" if top is not None and address else str(root)
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def stored_path(root: Path) -> str:
    """Return the path of a workspace for a database: bytes that are not UTF-8 are escaped."""
    return str(root).encode(errors="backslashreplace").decode()


def plain_address(address: str) -> str:
    """Return `host/path` of an address: without protocol, user, password, query and `.git`."""
    address = without_secrets(address)
    scp = _SCP.match(address)
    plain = f"{scp[1]}/{scp[2]}" if scp else address.partition("://")[2] or address
    host, slash, path = plain.partition("/")
    host = host.rpartition("@")[2].lower()
    return f"{host}{slash}{path.strip('/').removesuffix('.git')}"


def git(root: Path, *arguments: str) -> str | None:
    """Return the output of git; None if it fails or is not installed."""
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return None
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else None
