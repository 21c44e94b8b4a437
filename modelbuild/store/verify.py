"""Check every blob of a cache against its digest, and every environment against its list of files."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from modelbuild.store.action_cache import ActionCache
from modelbuild.store.cas import Cas, check, hash_of
from modelbuild.store.codec import blobs_of
from modelbuild.store.environments import damaged_files, environments
from modelbuild.store.files import open_up
from modelbuild.store.gc import TRASH, empty_trash


@dataclass(frozen=True, slots=True)
class VerifiedStore:
    """The result of a check. For blobs: the number (and bytes) of blobs read, the hashes of damaged blobs, which were
    deleted, and the number of actions deleted because of a missing blob or a damaged row. For environments: their
    number, the number (and bytes) of their files read, and the paths in the cache of damaged files, whose environments
    were deleted."""

    blobs: int
    bytes: int
    bad: tuple[str, ...]
    actions: int
    toolchains: int = 0
    toolchain_files: int = 0
    toolchain_bytes: int = 0
    damaged: tuple[str, ...] = ()


def verify(directory: Path, cas: Cas, actions: ActionCache) -> VerifiedStore:
    """Verify a cache. Other builds may run meanwhile: only damaged entries are deleted."""
    blobs = 0
    size = 0
    bad = []
    for name, entry in cas.scan():
        try:
            length = entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
        blobs += 1
        size += length
        if not check(entry.path, name):
            bad.append(hash_of(name))
    broken = [
        row.key
        for row in actions.rows() or ()
        if row.result is None or not all(cas.has(digest) for digest in blobs_of(row.result))
    ]
    if broken:
        actions.forget(broken)
    found = VerifiedStore(blobs, size, tuple(sorted(bad)), len(broken))
    return _with_environments(directory, found)


def _with_environments(directory: Path, found: VerifiedStore) -> VerifiedStore:
    made = environments(directory)
    files = size = 0
    damaged = []
    for environment in made:
        bad = []
        for name, length, differs in damaged_files(environment):
            files += 1
            size += length
            if differs:
                bad.append(str(environment.folder.relative_to(directory) / name))
        if bad:
            trash = directory / f"{TRASH}{os.urandom(8).hex()}"
            trash.mkdir()
            open_up(environment.folder, stat.S_IRWXU)
            os.rename(environment.folder, trash / environment.folder.name)
        damaged += bad
    empty_trash(directory)
    return replace(
        found, toolchains=len(made), toolchain_files=files, toolchain_bytes=size, damaged=tuple(sorted(damaged))
    )
