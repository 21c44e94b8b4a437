"""Eviction: the cap holds, used results stay, and no result lacks its blobs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.actions import ActionResult, FileEntry
from modelbuild.store.digests import digest_bytes
from modelbuild.store.gc import Collected
from modelbuild.store.local import LocalStore, open_store
from modelbuild.store.schemas import INDEX

Remember = Callable[..., ActionResult]


def kb(letter: str, count: int = 1) -> bytes:
    return letter.encode() * 1000 * count


def used_at(cache: Path, **times: int) -> None:
    """Set the times of actions' last use."""
    connection = sqlite3.connect(INDEX.newest(cache)[0])
    with connection:
        for key, time in times.items():
            assert connection.execute("UPDATE actions SET last_used = ? WHERE key = ?", (time, key)).rowcount == 1
    connection.close()


def keys(store: LocalStore, candidates: str) -> str:
    return "".join(key for key in candidates if store.get_action(key) is not None)


def blobs(cache: Path) -> set[str]:
    return {path.name for path in (cache / "cas").rglob("*") if path.is_file()}


@pytest.fixture
def full(cache: Path, remember: Remember) -> Path:
    """Return a cache with a, b, c, d of 1000 bytes each; the order of use is c (longest ago), a, d, b."""
    with open_store(cache) as store:
        for key in "abcd":
            remember(store, key, kb(key))
    used_at(cache, c=1, a=2, d=3, b=4)
    return cache


@pytest.mark.parametrize(
    ("cap", "left"),
    [(None, "abcd"), (4000, "abcd"), (3999, "abd"), (3333, "bd"), (2300, "bd"), (1999, "b"), (1000, "")],
)
def test_least_recently_used_results_go_first(full: Path, cap: int | None, left: str) -> None:
    """Down to nine tenths of the cap, once over it."""
    with open_store(full, max_size=cap) as store:
        collected = store.collect()
        assert keys(store, "abcd") == left
        gone = 4 - len(left)
        assert collected == Collected(actions=gone, blobs=gone, freed=1000 * gone, left=1000 * len(left))
        assert blobs(full) == {digest_bytes(kb(key)).hash for key in left}
        assert store.verify().actions == 0
        assert list(full.glob("trash-*")) == []


def test_a_cap_of_nothing_leaves_nothing_and_no_cap_leaves_empty_files(cache: Path, remember: Remember) -> None:
    with open_store(cache) as store:
        remember(store, "empty", b"")
        assert store.collect().actions == 0
    with open_store(cache, max_size=0) as store:
        assert store.collect() == Collected(actions=1, blobs=1)


def test_builds_count_as_uses(full: Path) -> None:
    with open_store(full) as store:
        store.get_action("c")
    with open_store(full, max_size=2300) as store:
        store.collect()
        assert keys(store, "abcd") == "bc"


def test_a_blob_stays_while_one_action_names_it(cache: Path, remember: Remember) -> None:
    with open_store(cache) as store:
        remember(store, "old", kb("s"), kb("o"))
        remember(store, "new", kb("s"), kb("n"))
    used_at(cache, old=1, new=2)
    with open_store(cache, max_size=2500) as store:
        assert store.collect() == Collected(actions=1, blobs=1, freed=1000, left=2000)
        assert store.get_action("old") is None
        assert store.get_action("new") is not None


def test_small_results_stay_though_a_newer_one_does_not_fit(cache: Path, remember: Remember) -> None:
    with open_store(cache) as store:
        remember(store, "small", kb("s"))
        remember(store, "shares", kb("s"))
        remember(store, "huge", kb("h", 50))
    used_at(cache, shares=1, small=2, huge=3)
    with open_store(cache, max_size=10_000) as store:
        store.collect()
        assert store.get_action("huge") is None
        assert store.get_action("small") is not None
        assert store.get_action("shares") is not None


def test_outputs_that_were_laid_out_stay_whole(full: Path, tmp_path: Path) -> None:
    with open_store(full, max_size=1) as store:
        store.place(FileEntry(digest_bytes(kb("a"))), tmp_path / "placed")
        store.collect()
        assert blobs(full) == set()
    assert (tmp_path / "placed").read_bytes() == kb("a")


def test_an_evicted_result_can_be_put_again(full: Path, remember: Remember) -> None:
    with open_store(full, max_size=1) as store:
        store.collect()
        remember(store, "a", kb("a"))
        assert keys(store, "abcd") == "a"


def test_executables_count_and_go(cache: Path, write: Callable[..., Path]) -> None:
    with open_store(cache, max_size=100) as store:
        for executable in (False, True):
            value = store.put_output(write("out", kb("x"), executable=executable))
            store.put_action(f"k{executable}", ActionResult((("o", value),)), {})
        assert len(blobs(cache)) == 2
        assert store.collect() == Collected(actions=2, blobs=2, freed=2000, left=0)
        assert blobs(cache) == set()


def test_unreachable_files_go_without_a_cap(full: Path, write: Callable[..., Path]) -> None:
    """Blobs of no action, rests of killed builds, broken databases, those of other versions, and strange files."""
    write("cache/tmp/sandbox/deep/file", b"x")
    (full / "tmp/sandbox/deep").chmod(0o555)
    write("cache/trash-1/file", b"x")
    write("cache/index-v0.0.db", b"x")
    write("cache/index-v0.0.db-wal", b"x")
    for name in ("history-v2.db", "history-v3.db-wal", "history-v4.0.db", "history-v4.1.db", "history-v4.1.db-wal"):
        write(f"cache/{name}", b"x")
    write("cache/cas/00/strange", b"x")
    (full / "cas/00/folder").mkdir()
    with open_store(full) as store:
        orphan = store.put_bytes(b"orphan")
        collected = store.collect()
        assert (collected.actions, collected.left) == (0, 4000)
        assert store.missing([orphan]) == {orphan}
        assert keys(store, "abcd") == "abcd"
        index = INDEX.newest(full)[0].name
        names = {path.name for path in full.iterdir()} - {f"{index}-wal", f"{index}-shm"}
        history = {"history-v4.1.db", "history-v4.1.db-wal"}
        assert names == {"CACHEDIR.TAG", "cas", index, "index.lock", "lock", "running", "tmp"} | history
        assert list((full / "tmp").iterdir()) == []
        assert blobs(full) == {digest_bytes(kb(key)).hash for key in "abcd"}


def test_a_broken_database_goes_with_what_only_it_knew(full: Path, warnings: list[str], remember: Remember) -> None:
    """Of two processes that had it open when it broke, one may still use the old one when it collects."""
    broken = INDEX.newest(full)[0]
    with open_store(full, warn=warnings.append) as store:
        assert keys(store, "abcd") == "abcd"
        other = open_store(full, warn=warnings.append)
        broken.write_bytes(b"junk" * 10_000)
        other._database.close()
        remember(other, "e", kb("e"))
        other.close()
        assert len(warnings) == 1
        store.collect()
        assert keys(store, "abcde") == "e"
        assert blobs(full) == {digest_bytes(kb("e")).hash}
    assert [path.name for path in full.glob("index-v*")] == [INDEX.newest(full)[0].name]
    assert INDEX.newest(full)[0] != broken


def test_folders_that_a_step_closed_go(
    full: Path, write: Callable[..., Path], as_user: Callable[[Callable[[], None]], int]
) -> None:
    write("cache/tmp/sandbox/closed/file", b"x")
    for name in ("closed", "."):
        (full / "tmp/sandbox" / name).chmod(0o555)

    def work() -> None:
        with open_store(full) as store:
            store.collect()

    assert as_user(work) == 0
    assert list((full / "tmp").iterdir()) == []
    assert list(full.glob("trash-*")) == []


def test_results_that_lost_a_blob_go(full: Path) -> None:
    with open_store(full) as store:
        store.blob_path(digest_bytes(kb("a"))).unlink()
        assert store.collect() == Collected(actions=1, blobs=0, freed=0, left=3000)


def test_a_cache_that_others_use_is_left_alone(full: Path) -> None:
    with open_store(full, max_size=1) as store, open_store(full, max_size=1) as other:
        assert store.collect() == Collected(busy=True)
        assert other.collect() == Collected(busy=True)
        assert keys(store, "abcd") == "abcd"
        other.close()
        assert store.collect().actions == 4


def test_one_that_collects_in_vain_still_holds_its_lock(full: Path) -> None:
    with open_store(full) as store, open_store(full) as other:
        assert store.collect().busy
        assert other.collect().busy


def test_one_that_has_collected_holds_its_lock_again(full: Path) -> None:
    with open_store(full) as store:
        assert not store.collect().busy
        with open_store(full) as other:
            assert other.collect().busy


def test_actions_that_cannot_be_read_are_not_taken_for_none(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(full, max_size=1) as store:
        with monkeypatch.context() as patch:
            patch.setattr("modelbuild.store.database.Database.read", lambda *_: None)
            assert store.collect() == Collected(busy=True)
        assert keys(store, "abcd") == "abcd"


def test_actions_that_cannot_be_forgotten_keep_their_blobs(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(full, max_size=1) as store:
        with monkeypatch.context() as patch:
            patch.setattr("modelbuild.store.database.Database.write", lambda *_: False)
            assert store.collect() == Collected(busy=True)
        assert keys(store, "abcd") == "abcd"


def test_a_build_that_ends_over_the_cap_collects(cache: Path, remember: Remember) -> None:
    store = open_store(cache, max_size=2500)
    for key in "abc":
        remember(store, key, kb(key))
    collected = store.close()
    assert collected == Collected(actions=1, blobs=1, freed=1000, left=2000)
    for key in "de":
        store = open_store(cache, max_size=2500)
        assert len(keys(store, "abcde")) == 2
        remember(store, key, kb(key))
        assert store.close() == Collected(actions=1, blobs=1, freed=1000, left=2000)


def test_a_build_that_ends_under_the_cap_or_adds_nothing_does_not(cache: Path, remember: Remember) -> None:
    for key in "ab":
        store = open_store(cache, max_size=2500)
        remember(store, key, kb(key))
        store.close()
    store = open_store(cache, max_size=2500)
    remember(store, "a", kb("a"))
    assert store.close() is None
    store = open_store(cache, max_size=2500)
    remember(store, "c", b"c" * 499)
    assert store.close() is None
    store = open_store(cache, max_size=2500)
    remember(store, "d", b"dd")
    collected = store.close()
    assert collected is not None
    assert collected.actions == 1
    store = open_store(cache, max_size=1)
    assert len(keys(store, "abcd")) == 3
    assert store.close() is None
    store = open_store(cache)
    remember(store, "e", kb("e", 10))
    assert store.close() is None


def test_a_build_that_ends_while_another_runs_leaves_it_to_that_one(cache: Path, remember: Remember) -> None:
    first, second = open_store(cache, max_size=100), open_store(cache, max_size=100)
    remember(first, "a", kb("a"))
    remember(second, "b", kb("b"))
    assert first.close() == Collected(busy=True)
    assert second.get_action("a") is not None
    assert second.close() == Collected(actions=2, blobs=2, freed=2000, left=0)


def test_digests_of_files_that_are_gone_are_forgotten(full: Path, write: Callable[..., Path]) -> None:
    path = write("source", b"x")
    with open_store(full) as store:
        store.files.digest(path)
        path.unlink()
        store.collect()
    connection = sqlite3.connect(INDEX.newest(full)[0])
    assert connection.execute("SELECT count(*) FROM files").fetchall() == [(0,)]
    connection.close()


def test_killed_at_any_moment_nothing_dangles(
    cache: Path, remember: Remember, kill_at_each_call: Callable[..., int]
) -> None:
    with open_store(cache) as store:
        for key in "abcd":
            remember(store, key, kb(key), kb("s"))
    used_at(cache, a=1, b=2, c=3, d=4)

    def work() -> None:
        open_store(cache, max_size=3400).collect()

    def check() -> None:
        with open_store(cache) as store:
            there = keys(store, "abcd")
            assert there in ("abcd", "cd")
            for key in there:
                assert store.read_bytes(digest_bytes(kb(key))) == kb(key)
            assert store.stat().actions == len(there)

    assert kill_at_each_call(work, check) > 5
    with open_store(cache) as store:
        store.collect()
        assert blobs(cache) == {digest_bytes(kb(key)).hash for key in "cds"}
        assert os.listdir(cache / "tmp") == []
        assert list(cache.glob("trash-*")) == []
