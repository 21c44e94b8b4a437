"""Damage to the history's file fails no build, and prints nothing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from modelbuild.history.action_facts import ActionFacts
from modelbuild.history.action_records import Records
from modelbuild.history.database import read_history
from modelbuild.history.estimates import action_estimates
from modelbuild.history.measurements import Measures
from modelbuild.history.revisions import remember_revision, values_at
from modelbuild.history.write import _TIDY_EVERY, KEPT_KEYS, BuildFacts, remember
from modelbuild.store.schemas import HISTORY

NAME = "//m:a#emit"
BYTES = ("//m:a (cpu)", "bytes")


def build(cache: Path, key: str = "k", status: str = "ran", **targets: object) -> None:
    facts = ActionFacts(NAME, "//m:a", "emit", key, status, 1.0, {}, {}, ())
    remember(
        cache, cache, BuildFacts(1.0, True, {NAME: facts}, {"//m:a": targets}, {BYTES: 1.0, (NAME, "seconds"): 2.0})
    )


def test_reading_makes_no_file(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        assert Measures(directory, tmp_path).last(*BYTES) is None
        assert values_at(directory, tmp_path, ["c"]) == {}
        assert action_estimates(directory) == action_estimates(directory, [NAME]) == {}
        records = Records(directory, tmp_path)
        assert (records.rows(NAME), records.actions_of("//m:a"), records.problem()) == ([], [], "")
    assert list(tmp_path.iterdir()) == []


def test_a_build_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    build(tmp_path)
    with pytest.raises(TypeError, match="not JSON serializable"):
        build(tmp_path, "other", broken=object())
    assert read_history(tmp_path, "SELECT count(*), max(key) FROM actions") == [(1, "k")]
    assert read_history(tmp_path, "SELECT count(*) FROM builds") == [(1,)]


def test_failed_runs_do_not_displace_the_last_success(tmp_path: Path) -> None:
    build(tmp_path, "old")
    build(tmp_path, "good")
    for number in range(_TIDY_EVERY):
        build(tmp_path, f"bad {number}", "failed")
    kept = read_history(tmp_path, "SELECT key FROM actions WHERE status = 'ran'")
    assert kept == [("good",)]
    assert read_history(tmp_path, "SELECT count(*) FROM actions") < [(1 + 2 * KEPT_KEYS,)]


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE builds",
        "DROP TABLE measures",
        "PRAGMA user_version = 99",
        # The next build gets the number of an earlier one.
        "DELETE FROM builds",
    ],
)
def test_after_a_broken_history_the_next_is_begun_and_the_old_file_stays(
    tmp_path: Path, damage: str, capfd: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path)
    with closing(sqlite3.connect(HISTORY.path(tmp_path, 0))) as connection:
        connection.execute(damage)
        connection.commit()
    build(tmp_path, "k2", level=2)
    remember_revision(tmp_path, tmp_path, "c", {BYTES: 3.0})
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["history-v4.0.db", "history-v4.1.db"]
    assert read_history(tmp_path, "SELECT key FROM actions") == [("k2",)]
    assert Measures(tmp_path, tmp_path).last(*BYTES) == 1
    assert values_at(tmp_path, tmp_path, ["c"]) == {BYTES: 3}
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_loses_the_record_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path)
    connect = sqlite3.connect

    def full(*given: object, **named: object) -> sqlite3.Connection:
        connection = connect(*given, **named)  # type: ignore[call-overload]
        connection.execute("PRAGMA max_page_count=1")
        return connection  # type: ignore[no-any-return]

    monkeypatch.setattr(sqlite3, "connect", full)
    build(tmp_path, "k2", much=os.urandom(100_000).hex())
    monkeypatch.undo()
    assert read_history(tmp_path, "SELECT key FROM actions") == [("k",)]
    assert capfd.readouterr() == ("", "")


def test_a_read_only_history_fails_no_build(tmp_path: Path, as_user: Callable[..., int]) -> None:
    build(tmp_path)
    tmp_path.chmod(0o555)
    for path in tmp_path.iterdir():
        path.chmod(0o444)

    def work() -> None:
        build(tmp_path, "k2")

    try:
        assert as_user(work) == 0
    finally:
        tmp_path.chmod(0o755)
