"""The action cache: a correct result or a miss, after any damage to its database."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from modelbuild.actions import ActionResult, Digest, FileEntry
from modelbuild.errors import EnvironmentProblem
from modelbuild.store import database as database_module
from modelbuild.store.action_cache import ActionCache
from modelbuild.store.database import Database
from modelbuild.store.ownership import claim
from modelbuild.store.schemas import INDEX

RESULT = ActionResult((("o", FileEntry(Digest("a" * 64, 1))),), seconds=1.5, max_rss=3)
OTHER = ActionResult((("o", FileEntry(Digest("b" * 64, 2))),))
DAY = 86400


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def databases() -> Iterator[list[Database]]:
    """The databases that open_cache opened."""
    opened: list[Database] = []
    yield opened
    for database in opened:
        database.close()


@pytest.fixture
def open_cache(
    folder: Path, warnings: list[str], clock: Clock, databases: list[Database]
) -> Callable[..., ActionCache]:
    def make() -> ActionCache:
        databases.append(Database(folder, INDEX, warnings.append))
        return ActionCache(databases[-1], clock)

    return make


def sql(folder: Path, statement: str, *values: Any) -> list[Any]:
    connection = sqlite3.connect(INDEX.newest(folder)[0])
    with connection:
        rows = connection.execute(statement, values).fetchall()
    connection.close()
    return rows


def test_results_come_back_also_in_another_process(open_cache: Callable[..., ActionCache]) -> None:
    cache = open_cache()
    assert cache.get("k") is None
    cache.put("k", RESULT, {"step": "s", "params": {"é": [1, None]}}, 0)
    for each in (cache, open_cache()):
        assert each.get("k") == RESULT
        assert each.get("K") is None
        assert [row.material() for row in each.rows() or ()] == [{"step": "s", "params": {"é": [1, None]}}]
    cache.put("k", OTHER, {}, 0)
    assert open_cache().get("k") == OTHER


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("UPDATE actions SET result = replace(result, 'aaaa', 'bbbb')", ()),
        ("UPDATE actions SET result = '{}', checksum = ''", ()),
        ("UPDATE actions SET result = ?", (b"\xff\xfe",)),
        ("UPDATE actions SET checksum = 7", ()),
        ("UPDATE actions SET key = 'other'", ()),
    ],
)
def test_a_row_that_is_not_what_was_written_is_a_miss(
    open_cache: Callable[..., ActionCache], folder: Path, warnings: list[str], statement: str, values: tuple[Any, ...]
) -> None:
    open_cache().put("k", RESULT, {}, 0)
    sql(folder, statement, *values)
    cache = open_cache()
    assert cache.get("k") is None
    assert cache.get("other") is None
    cache.put("k", RESULT, {}, 0)
    assert cache.get("k") == RESULT
    assert warnings == []


def test_material_that_is_not_what_was_written(open_cache: Callable[..., ActionCache], folder: Path) -> None:
    open_cache().put("k", RESULT, {}, 0)
    sql(folder, "UPDATE actions SET material = ?", b"junk")
    assert [row.material() for row in open_cache().rows() or ()] == [None]


def test_use_is_written_at_most_once_an_hour(
    open_cache: Callable[..., ActionCache], folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = open_cache()
    cache.put("k", RESULT, {}, 0)
    first = clock.now
    with monkeypatch.context() as patch:
        patch.setattr(Database, "write", lambda *_: pytest.fail("a build that finds everything writes nothing"))
        clock.now = first + 3599
        cache.get("k")
        cache.flush()
    assert sql(folder, "SELECT created, last_used FROM actions") == [(first, first)]
    clock.now = first + 3602
    cache.get("k")
    cache.flush()
    assert sql(folder, "SELECT created, last_used FROM actions") == [(first, first + 3602)]


def test_rows_are_sorted_by_use(open_cache: Callable[..., ActionCache], clock: Clock) -> None:
    cache = open_cache()
    for key in "abc":
        cache.put(key, RESULT, {}, 0)
        clock.now += DAY
    cache.get("a")
    cache.flush()
    assert [row.key for row in cache.rows() or ()] == ["a", "c", "b"]
    cache.forget(["a", "b"])
    assert [row.key for row in cache.rows() or ()] == ["c"]


def test_the_total_is_unknown_until_counted(open_cache: Callable[..., ActionCache]) -> None:
    cache = open_cache()
    cache.put("k", RESULT, {}, 5)
    assert cache.total() is None
    cache.set_total(100)
    cache.put("k", RESULT, {}, 5)
    cache.put("k", RESULT, {}, 0)
    assert cache.total() == 105


def garbage(path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)


def no_pages(path: Path) -> None:
    """The header is valid, the rest is not."""
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xaa" * (len(data) - 4096)
    path.write_bytes(data)


def other_tables(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.executescript(f"CREATE TABLE actions (x); PRAGMA user_version={INDEX.version};")
    connection.close()


def other_schema(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()


@pytest.mark.parametrize("spoil", [garbage, no_pages, other_tables, other_schema])
@pytest.mark.parametrize("first", ["get", "put"])
def test_after_a_broken_database_a_new_one_is_begun_and_said_once(
    open_cache: Callable[..., ActionCache],
    databases: list[Database],
    folder: Path,
    warnings: list[str],
    spoil: Callable[[Path], None],
    first: str,
) -> None:
    before = open_cache()
    before.put("k", RESULT, {}, 0)
    databases[0].close()
    broken = INDEX.newest(folder)[0]
    spoil(broken)
    cache = open_cache()
    if first == "get":
        assert cache.get("k") is None
    cache.put("k2", OTHER, {}, 0)
    assert cache.get("k2") == OTHER
    assert open_cache().get("k2") == OTHER
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{broken} is broken (")
    assert warnings[0].endswith(f": starting a new one, {INDEX.newest(folder)[0].name}")
    assert INDEX.newest(folder)[0] != broken


def test_a_database_that_is_removed_meanwhile(
    open_cache: Callable[..., ActionCache], databases: list[Database], folder: Path
) -> None:
    before = open_cache()
    before.put("k", RESULT, {}, 0)
    for path in folder.glob("index*"):
        path.unlink()
    before.put("k2", RESULT, {}, 0)
    after = open_cache()
    assert after.get("k") is None
    after.put("k3", RESULT, {}, 0)
    before.put("k4", RESULT, {}, 0)
    databases[0].close()
    assert after.get("k3") == RESULT
    assert open_cache().get("k3") == RESULT


def test_a_locked_database_stops_nothing_and_is_said_once(
    open_cache: Callable[..., ActionCache], folder: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_PATIENCE", 0.05)
    monkeypatch.setattr(database_module, "_NO_PATIENCE_MS", 1)
    open_cache().put("k", RESULT, {}, 0)
    other = sqlite3.connect(INDEX.newest(folder)[0], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    cache = open_cache()
    cache.put("k2", RESULT, {}, 0)
    cache.put("k3", RESULT, {}, 0)
    assert cache.get("k") == RESULT
    assert cache.get("k2") is None
    assert warnings == [
        f"cannot use {INDEX.newest(folder)[0]} (database is locked): results are kept as far as they can be"
    ]
    other.execute("ROLLBACK")
    other.close()
    cache.put("k4", RESULT, {}, 0)
    assert cache.get("k4") == RESULT


def test_a_database_that_could_not_be_made_at_first(
    open_cache: Callable[..., ActionCache], folder: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is locked while empty does not count as one without tables."""
    monkeypatch.setattr(database_module, "_PATIENCE", 0.05)
    claim(folder)
    other = sqlite3.connect(INDEX.newest(folder)[0], isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    cache = open_cache()
    assert cache.get("k") is None
    other.execute("ROLLBACK")
    other.close()
    cache.put("k", RESULT, {}, 0)
    assert cache.get("k") == RESULT
    assert len(warnings) == 1
    assert len(list(folder.glob("index-v*.db"))) == 1


def test_a_full_disk_is_one_line(open_cache: Callable[..., ActionCache], folder: Path) -> None:
    cache = open_cache()
    cache.put("k", RESULT, {}, 0)
    connection = cache._database._connection
    assert connection is not None
    connection.execute("PRAGMA max_page_count=1")
    with pytest.raises(EnvironmentProblem) as caught:
        cache.put("k2", RESULT, {"much": os.urandom(100_000).hex()}, 0)
    assert str(caught.value) == f"{folder}: no space left on the disk; free some, then build again"
    assert cache.get("k") == RESULT


def test_a_forked_process_uses_its_own_connection(
    open_cache: Callable[..., ActionCache], child: Callable[[Callable[[], None]], int]
) -> None:
    cache = open_cache()
    cache.put("k", RESULT, {}, 0)

    inherited = cache._database._connection

    def work() -> None:
        assert cache.get("k") == RESULT
        assert cache._database._connection is not inherited
        cache.put("from child", OTHER, {}, 0)

    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        """A lock that another thread of the parent holds must not block the child."""
        with cache._database._lock:
            held.set()
            go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert child(work) == 0
    finally:
        go.set()
        thread.join()
    assert cache.get("from child") == OTHER
    cache.put("k2", RESULT, {}, 0)
    assert cache.get("k2") == RESULT
