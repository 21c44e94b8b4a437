"""The environments of toolchains in a cache: each is a folder of installed packages, made once for all workspaces."""

from __future__ import annotations

import base64
import csv
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild.store.files import open_plain

# The folder of environments in a cache, and the file in each that is written last.
FOLDER = "toolchains"
MANIFEST = "toolchain.json"

# Suffixes of the name of an environment that is being made, and of its lock.
PARTIAL = ".partial"
LOCK = ".lock"

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Environment:
    """A complete environment. `bytes` is the size of its files, `used` the time of its last use in seconds since the
    epoch, `facts` the contents of its manifest."""

    folder: Path
    bytes: int
    used: float
    facts: dict[str, Any]


def read_environment(folder: Path) -> Environment | None:
    """Return the environment in a folder; None if it is missing, incomplete or of another version."""
    path = folder / MANIFEST
    try:
        with open_plain(str(path)) as file:
            facts = json.loads(file.read())
            used = os.fstat(file.fileno()).st_mtime
        return Environment(folder, int(facts["bytes"]), used, facts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def environments(cache: Path) -> list[Environment]:
    """Return the complete environments of a cache, the most recently used first."""
    found = [each for path in _entries(cache) if (each := read_environment(path)) is not None]
    return sorted(found, key=lambda each: (-each.used, each.folder.name))


def leftovers(cache: Path) -> list[Path]:
    """Return everything else among the environments: leftovers of killed builds, and damaged environments. Only for a
    process that holds the cache's lock exclusively: no environment is being made then."""
    complete = {each.folder for each in environments(cache)}
    return [path for path in _entries(cache) if path not in complete]


def mark_used(environment: Environment) -> None:
    """Set the time of last use. Silently skipped for another user's: it only serves eviction."""
    with suppress(OSError):
        os.utime(environment.folder / MANIFEST)


def make_read_only(folder: Path) -> None:
    """Make all folders read-only, so that nothing in them is added, removed or replaced. Their files keep their modes,
    which they share with hard links elsewhere."""
    for top, _, _ in os.walk(folder, topdown=False):
        os.chmod(top, stat.S_IMODE(os.stat(top).st_mode) & ~0o222)


def damaged_files(environment: Environment) -> Iterator[tuple[str, int, bool]]:
    """Read each file that the distributions of an environment list in their RECORD, except byte code. Yield its path in
    the environment, its size, and whether it is missing or differs from each RECORD that lists it."""
    listed: dict[Path, set[str]] = {}
    for record in sorted(environment.folder.glob("lib/*/site-packages/*.dist-info/RECORD")):
        site = record.parents[1]
        try:
            lines = list(csv.reader(record.read_text().splitlines()))
        except (OSError, ValueError, csv.Error):
            yield str(record.relative_to(environment.folder)), 0, True
            continue
        for name, digest in ((line[0], line[1]) for line in lines if len(line) > 1 and line[1]):
            path = Path(os.path.normpath(site / name))
            if path.is_relative_to(environment.folder) and not _is_byte_code(path):
                # Of two distributions with one file, the one that was installed last has it.
                listed.setdefault(path, set()).add(digest)
    for path, digests in listed.items():
        found = {_digest(path, kind) for kind in {digest.partition("=")[0] for digest in digests}}
        size = max(size for size, _ in found)
        yield str(path.relative_to(environment.folder)), size, digests.isdisjoint(digest for _, digest in found)


def _is_byte_code(path: Path) -> bool:
    """Return whether Python writes a file: the installer does so, and an import if the source has another time."""
    return path.suffix == ".pyc" and path.parent.name == "__pycache__"


def _digest(path: Path, kind: str) -> tuple[int, str]:
    """Return a file's size and digest, in RECORD's format; '' for a missing file."""
    size = 0
    try:
        import hashlib  # a build with nothing to do also imports this module

        sum_ = hashlib.new(kind)
        with open_plain(str(path)) as file:
            while data := file.read(_CHUNK):
                sum_.update(data)
                size += len(data)
    except (OSError, ValueError):
        return size, ""
    return size, f"{kind}={base64.urlsafe_b64encode(sum_.digest()).decode().rstrip('=')}"


def _entries(cache: Path) -> list[Path]:
    try:
        return [cache / FOLDER / name for name in sorted(os.listdir(cache / FOLDER)) if not name.endswith(LOCK)]
    except OSError:
        return []
