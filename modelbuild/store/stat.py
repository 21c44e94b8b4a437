"""Counts and sizes of a cache's contents."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from modelbuild.store.action_cache import ActionCache
from modelbuild.store.cas import Cas, hash_of
from modelbuild.store.codec import blobs_of
from modelbuild.store.environments import environments


@dataclass(frozen=True, slots=True)
class StepUse:
    """The results of one step. `bytes` counts distinct blobs, which other steps may also use."""

    step: str
    actions: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StoreStat:
    """Counts and bytes. `orphans` are blobs that no action refers to; `temporary` are files of running or killed
    builds; `index` is the databases; `toolchains` are installed environments."""

    directory: Path
    max_size: int | None
    actions: int
    blobs: int
    bytes: int
    orphans: int
    orphan_bytes: int
    temporary: int
    temporary_bytes: int
    index_bytes: int
    steps: tuple[StepUse, ...]
    toolchains: int = 0
    toolchain_bytes: int = 0


def measure(directory: Path, cas: Cas, actions: ActionCache, max_size: int | None) -> StoreStat:
    """Return the counts of a cache. Looks at every blob's size and every action; reads no blob."""
    sizes: dict[str, int] = defaultdict(int)
    blobs = 0
    for name, entry in cas.scan():
        with suppress(FileNotFoundError):
            sizes[hash_of(name)] += entry.stat(follow_symlinks=False).st_size
            blobs += 1
    counts: dict[str, int] = defaultdict(int)
    named: dict[str, set[str]] = defaultdict(set)
    rows = actions.rows() or []
    for row in rows:
        step = str((row.material() or {}).get("step", ""))
        counts[step] += 1
        named[step] |= {digest.hash for digest in blobs_of(row.result)} if row.result is not None else set()
    orphans = sizes.keys() - set().union(*named.values())
    made = environments(directory)
    temporary = [size for top in ("tmp", "trash-*") for path in directory.glob(top) for size in sizes_of(path)]
    return StoreStat(
        directory=directory,
        max_size=max_size,
        actions=len(rows),
        blobs=blobs,
        bytes=sum(sizes.values()),
        orphans=len(orphans),
        orphan_bytes=sum(sizes[hash_] for hash_ in orphans),
        temporary=len(temporary),
        temporary_bytes=sum(temporary),
        index_bytes=sum(size for path in directory.glob("index-*") for size in sizes_of(path)),
        steps=tuple(
            StepUse(step, counts[step], sum(sizes.get(hash_, 0) for hash_ in named[step])) for step in sorted(counts)
        ),
        toolchains=len(made),
        toolchain_bytes=sum(each.bytes for each in made),
    )


def sizes_of(path: Path) -> Iterator[int]:
    """Yield the size of a file, or of each file below a folder; ignores files removed meanwhile."""
    for each in [f"{top}/{f}" for top, _, files in os.walk(path) for f in files] if path.is_dir() else [path]:
        with suppress(OSError):
            yield os.stat(each).st_size
