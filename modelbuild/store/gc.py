"""Garbage collection: evict the least recently used results above the cap, and delete unreferenced files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from modelbuild.store.action_cache import ActionCache, Row
from modelbuild.store.cas import Cas, hash_of
from modelbuild.store.codec import blobs_of
from modelbuild.store.environments import Environment, environments, leftovers
from modelbuild.store.files import open_up, remove
from modelbuild.store.schemas import DATABASES

TRASH = "trash-"

# Above the cap, the cache shrinks to this fraction of it, so that not every build evicts.
_KEEP = 0.9


@dataclass(frozen=True, slots=True)
class Collected:
    """Counts of a collection; `toolchains` are evicted environments. `busy`: other builds use the cache, so nothing was
    done."""

    actions: int = 0
    blobs: int = 0
    freed: int = 0
    left: int = 0
    busy: bool = False
    toolchains: int = 0


def collect(directory: Path, cas: Cas, actions: ActionCache, max_size: int | None) -> Collected:
    """Evict results and environments above the cap (None: no cap; 0: evict all), and delete blobs that no action refers
    to and leftovers of killed builds.

    The caller holds the cache's lock exclusively, and should call empty_trash() after releasing it: files are only
    moved here, so that waiting builds do not wait for the disk. If it is killed, it leaves at worst blobs without
    actions, which the next collection deletes.
    """
    rows = actions.rows()
    if rows is None:
        return Collected(busy=True)
    sizes: dict[str, int] = {}
    names: dict[str, list[str]] = {}
    for name, entry in cas.scan():
        with suppress(FileNotFoundError):
            sizes[name] = entry.stat(follow_symlinks=False).st_size
            names.setdefault(hash_of(name), []).append(name)

    made = environments(directory)
    limit = sum(sizes.values()) + sum(each.bytes for each in made)
    if max_size is not None and limit > max_size:
        limit = int(max_size * _KEEP)
    kept: set[str] = set()
    left = 0
    evicted = []
    unused: list[Environment] = []
    kinds: list[Environment | Row] = [*made, *rows]
    for row in sorted(kinds, key=lambda each: -each.used):
        if isinstance(row, Environment):
            if max_size == 0 or left + row.bytes > limit:
                unused.append(row)
            else:
                left += row.bytes
            continue
        wanted = {digest.hash for digest in blobs_of(row.result)} if row.result is not None else set()
        files = {name for hash_ in wanted for name in names.get(hash_, ())} - kept
        cost = sum(sizes[name] for name in files)
        if max_size == 0 or row.result is None or not wanted <= names.keys() or left + cost > limit:
            evicted.append(row.key)
        else:
            kept |= files
            left += cost
    if evicted and not actions.forget(evicted):
        return Collected(busy=True)

    trash = directory / f"{TRASH}{os.urandom(8).hex()}"
    trash.mkdir()
    dropped = [(name, entry) for name, entry in cas.scan() if name not in kept]
    _move((entry.path for _, entry in dropped), trash)
    _move((str(path) for path in _leftovers(directory)), trash)
    _move((str(path) for path in (*leftovers(directory), *(each.folder for each in unused))), trash)
    actions.set_total(left - sum(each.bytes for each in environments(directory)))
    freed = sum(sizes.get(name, 0) for name, _ in dropped) + sum(each.bytes for each in unused)
    return Collected(len(evicted), len(dropped), freed, left, toolchains=len(unused))


def empty_trash(directory: Path) -> None:
    """Delete the files that collections moved; several processes may do so at once."""
    for path in directory.glob(f"{TRASH}*"):
        with suppress(OSError):  # another user's
            remove(str(path))


def _leftovers(directory: Path) -> Iterable[Path]:
    """Yield temporary files, broken databases, and databases of other versions, whose blobs no longer exist."""
    yield directory / "tmp"
    for schema in DATABASES:
        yield from schema.obsolete(directory)


def _move(paths: Iterable[str], trash: Path) -> None:
    for number, path in enumerate(paths):
        target = trash / f"{os.path.basename(path)}-{number}"
        with suppress(OSError):  # missing, or another user's
            try:
                os.rename(path, target)
            except PermissionError:
                for folder in (os.path.dirname(path), path):
                    open_up(folder, stat.S_IRWXU)
                os.rename(path, target)
