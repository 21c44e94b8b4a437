"""Reading a whole cache again: is every blob what its name says?"""

from __future__ import annotations

from dataclasses import dataclass

from modelbuild.store.action_cache import ActionCache
from modelbuild.store.cas import Cas, check, hash_of
from modelbuild.store.codec import blobs_of


@dataclass(frozen=True, slots=True)
class Verified:
    """How many blobs (and bytes) were read, the hashes of those that were wrong and dropped, and how many actions
    were dropped because a blob of theirs is not there or their row was broken."""

    blobs: int
    bytes: int
    bad: tuple[str, ...]
    actions: int


def verify(cas: Cas, actions: ActionCache) -> Verified:
    """Other builds may go on meanwhile: only what is wrong is dropped."""
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
