"""Check every blob of a cache against its digest."""

from __future__ import annotations

from dataclasses import dataclass

from modelbuild.store.action_cache import ActionCache
from modelbuild.store.cas import Cas, check, hash_of
from modelbuild.store.codec import blobs_of


@dataclass(frozen=True, slots=True)
class Verified:
    """The number of blobs (and bytes) read, the hashes of damaged blobs, which were deleted, and the number of actions
    deleted because of a missing blob or a damaged row."""

    blobs: int
    bytes: int
    bad: tuple[str, ...]
    actions: int


def verify(cas: Cas, actions: ActionCache) -> Verified:
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
    return Verified(blobs, size, tuple(sorted(bad)), len(broken))
