"""The estimate of a build's remaining time."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from modelbuild.history.database import open_history
from modelbuild.report.time_left import TimeLeft


@pytest.fixture
def history(tmp_path: Path) -> Path:
    known = [("//m:a#export", 30.0), ("//m:b#compile:p0", 10.0), ("//m:b#compile:p1", 20.0)]
    # Older runs were faster; the median of the last five counts.
    rows = [(name, at, value if at > 4 else 1.0) for name, value in known for at in range(10)]
    with closing(open_history(tmp_path)) as database:
        assert database.write(("INSERT INTO measures VALUES ('w', ?, 'seconds', ?, ?, '')", rows))
    return tmp_path


def test_it_is_the_work_shared_out_and_at_least_the_longest_action(history: Path) -> None:
    remaining = TimeLeft(history)
    remaining.expect(["//m:a#export", "//m:b#compile:p0"])
    assert remaining.left([], 1) == 40
    assert remaining.left([], 2) == 30
    assert remaining.left([("//m:a#export", 25.0)], 1) == 15
    assert remaining.left([("//m:a#export", 99.0)], 1) == 10  # it takes longer than it did


def test_actions_that_ended_take_no_more_time_also_when_they_are_named_again(history: Path) -> None:
    remaining = TimeLeft(history)
    remaining.expect(["//m:a#export", "//m:b#compile:p0"])
    remaining.ended("//m:a#export")
    assert remaining.left([], 1) == 10
    remaining.expect(["//m:a#export", "//m:b#compile:p0", "//m:b#compile:p1"])
    assert remaining.left([], 1) == 30


def test_new_actions_last_as_long_as_others_of_their_kind(history: Path) -> None:
    remaining = TimeLeft(history)
    remaining.expect(["//m:b#compile:p0", "//m:b#compile:p1", "//m:c#compile:p7"])
    assert remaining.left([], 1) == 45
    remaining.expect(["//m:c#emit"])
    assert remaining.left([], 1) is None
    remaining.ended("//m:c#emit")
    assert remaining.left([], 1) == 45


def test_without_a_history_nothing_is_said(tmp_path: Path) -> None:
    remaining = TimeLeft(tmp_path)
    remaining.expect(["//m:a#export"])
    assert remaining.left([], 1) is None
