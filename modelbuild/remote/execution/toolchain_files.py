"""The files of a toolchain that a remote worker gets with an action: the files of the distributions in its key."""

from __future__ import annotations

import base64
import csv
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from modelbuild.actions import Digest, FileEntry
from modelbuild.code.distributions import Distributions
from modelbuild.code.interpreter import Interpreter
from modelbuild.store.digests import digest_file

# The folder of the files in an action's input root.
FOLDER = "toolchain"

# A file by its path in FOLDER: its content, and its path on this machine.
Files = Mapping[str, tuple[FileEntry, Path]]

_lock = threading.Lock()


def files_of(python: Interpreter, names: Collection[str]) -> Files:
    """Return the files of distributions, without byte code, which is valid for one place only, and scripts, whose first
    lines contain Python's path."""
    found: dict[str, tuple[FileEntry, Path]] = {}
    with _lock:
        for name in sorted(names):
            found.update(_files(python.path, name))
    return found


@lru_cache(maxsize=4096)
def _files(path: tuple[str, ...], name: str) -> dict[str, tuple[FileEntry, Path]]:
    distribution = _distributions(path).find(name)
    if distribution is None:
        return {}
    rows = csv.reader(distribution.record.splitlines())
    return dict(_entries(Path(distribution.folder), rows))


@lru_cache(maxsize=16)
def _distributions(path: tuple[str, ...]) -> Distributions:
    return Distributions(path)


def _entries(folder: Path, rows: Iterator[list[str]]) -> Iterator[tuple[str, tuple[FileEntry, Path]]]:
    for row in rows:
        name, digest, size = (*row, "", "", "")[:3]
        if not name or name.startswith(("..", "/")) or name.endswith(".pyc"):
            continue
        file = folder / name
        try:
            status = os.stat(file)
        except FileNotFoundError:
            continue  # RECORD may list files that an installer skips
        listed = digest.removeprefix("sha256=") if digest.startswith("sha256=") else ""
        if listed and size.isdigit() and int(size) == status.st_size:
            # Environments are read-only to actions, and `cache verify` compares them with RECORD.
            content = Digest(base64.urlsafe_b64decode(listed + "=" * (-len(listed) % 4)).hex(), status.st_size)
        else:
            content = digest_file(file)
        yield name, (FileEntry(content, status.st_mode & 0o100 != 0), file)
