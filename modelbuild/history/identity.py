"""What a workspace is known by in the history: the same in every clone of its repository, another in others."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path

# git@host:path
_SCP = re.compile(r"(?:[^@/:]+@)?([^/:]+):(?!//)(.+)\Z")


@cache
def identity(root: Path) -> str:
    """A digest of the address that the repository was cloned from, and of the workspace's path in it; of the absolute
    path where there is no such address. The first commit would not do: CI systems clone without it."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    address = "" if top is None else plain_address(_origin(top))
    name = f"{address}//{root.relative_to(top).as_posix()}" if top is not None and address else str(root)
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def stored_path(root: Path) -> str:
    """The path of a workspace as a database takes it: what is not UTF-8 is escaped."""
    return str(root).encode(errors="backslashreplace").decode()


def plain_address(address: str) -> str:
    """`host/path`, whatever way leads there: without protocol, user, password and `.git`."""
    scp = _SCP.match(address)
    plain = f"{scp[1]}/{scp[2]}" if scp else address.partition("://")[2] or address
    host, slash, path = plain.partition("/")
    host = host.rpartition("@")[2].lower()
    return f"{host}{slash}{path.strip('/').removesuffix('.git')}"


def _origin(top: Path) -> str:
    command = ["git", "-C", str(top), "config", "--get", "remote.origin.url"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:  # there is no git
        return ""
    return os.fsdecode(done.stdout).strip()
