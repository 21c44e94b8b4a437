"""The output of `cache stat` and `cache verify`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from modelbuild.actions import ActionResult
from modelbuild.store.digests import digest_bytes
from modelbuild.store.local import LocalStore, open_store
from modelbuild.store.schemas import INDEX
from modelbuild.store.stat import StepUse
from modelbuild.store.verify import VerifiedStore

Remember = Callable[..., ActionResult]


def test_an_empty_cache(store: LocalStore, cache: Path) -> None:
    stat = store.stat()
    assert (stat.directory, stat.max_size, stat.actions, stat.blobs, stat.bytes) == (cache, None, 0, 0, 0)
    assert stat.steps == ()
    assert store.verify() == VerifiedStore(0, 0, (), 0)


def test_counts_and_bytes(cache: Path, remember: Remember, write: Callable[..., Path]) -> None:
    with open_store(cache, max_size=10_000) as store:
        remember(store, "a", b"a" * 10, b"s" * 5, step="steps.one")
        remember(store, "b", b"b" * 20, b"s" * 5, step="steps.one")
        remember(store, "c", b"c" * 40, b"s" * 5, step="steps.two")
        store.put_bytes(b"orphan")
        write("cache/tmp/sandbox/file", b"123")
        stat = store.stat()
    assert (stat.max_size, stat.actions, stat.blobs, stat.bytes) == (10_000, 3, 5, 81)
    assert (stat.orphans, stat.orphan_bytes) == (1, 6)
    assert (stat.temporary, stat.temporary_bytes) == (1, 3)
    assert stat.index_bytes > 0
    assert stat.steps == (StepUse("steps.one", 2, 35), StepUse("steps.two", 1, 45))


def test_every_blob_is_read_whatever_its_time_says(store: LocalStore, remember: Remember) -> None:
    import os

    remember(store, "good", b"good")
    remember(store, "bad", b"data", b"fine")
    path = store.blob_path(digest_bytes(b"data"))
    time = path.stat().st_mtime_ns
    path.chmod(0o644)
    path.write_bytes(b"DATA")
    path.chmod(0o444)
    os.utime(path, ns=(time, time))
    assert store.verify() == VerifiedStore(blobs=3, bytes=12, bad=(digest_bytes(b"data").hash,), actions=1)
    assert store.missing([digest_bytes(b"data")]) == {digest_bytes(b"data")}
    assert store.get_action("good") is not None
    assert store.verify() == VerifiedStore(blobs=2, bytes=8, bad=(), actions=0)


def test_broken_rows_and_results_without_blobs_are_dropped(store: LocalStore, cache: Path, remember: Remember) -> None:
    for key in ("good", "row", "lost"):
        remember(store, key, key.encode())
    store.blob_path(digest_bytes(b"lost")).unlink()
    connection = sqlite3.connect(INDEX.newest(cache)[0])
    with connection:
        connection.execute("UPDATE actions SET result = '{}' WHERE key = 'row'")
    connection.close()
    assert store.verify() == VerifiedStore(blobs=2, bytes=7, bad=(), actions=2)
    assert store.stat().actions == 1


def test_verify_may_run_beside_a_build(store: LocalStore, cache: Path, remember: Remember) -> None:
    with open_store(cache) as other:
        remember(other, "k", b"data")
        assert store.verify() == VerifiedStore(1, 4, (), 0)
