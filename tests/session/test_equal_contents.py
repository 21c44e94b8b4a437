"""A build after changes that left no content changed has nothing to do, and starts no process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.session.test_stale_targets import COUNTING, Joins, owners

SOURCE, BUILD, RULE, STEP = "a", "BUILD.toml", "rules/join.py", "rules/steps/join.py"


@pytest.fixture
def workspace(tmp_path: Path) -> Joins:
    made = Joins(tmp_path)
    assert made.built(program=COUNTING)["ok"]
    return made


def nothing_to_do(workspace: Joins) -> bool:
    up_to_date = workspace.built(program=COUNTING)["up_to_date"]
    assert workspace.said.splitlines()[-1] == "0 0"
    return bool(up_to_date)


@pytest.mark.parametrize("name", [SOURCE, BUILD, "MODELBUILD.toml", RULE, STEP])
def test_a_file_with_a_new_time(workspace: Joins, name: str) -> None:
    (workspace.root / name).touch()
    assert nothing_to_do(workspace)


@pytest.mark.parametrize(
    "names", [(SOURCE,), (SOURCE, BUILD, RULE, STEP)], ids=["a source", "sources, rules and targets"]
)
def test_files_that_changed_and_changed_back(workspace: Joins, names: tuple[str, ...]) -> None:
    """As a switch of branches and back leaves them: other files, with equal contents."""
    for name in names:
        path = workspace.root / name
        text = path.read_text()
        path.unlink()
        path.write_text(f"# {text}")
        path.unlink()
        path.write_text(text)
    assert nothing_to_do(workspace)


def test_new_times_are_recorded(workspace: Joins) -> None:
    (workspace.root / SOURCE).touch()
    time.sleep(0.1)
    (record,) = (workspace.root / "modelbuild-out/.modelbuild/snapshots").glob("*[0-9a-f]")
    assert nothing_to_do(workspace)
    before = record.stat().st_mtime_ns
    assert nothing_to_do(workspace)
    assert record.stat().st_mtime_ns == before


def test_only_targets_of_changed_contents_are_stale(workspace: Joins) -> None:
    (workspace.root / SOURCE).touch()
    workspace.write({"d": "D\n"})
    assert owners(workspace.built(program=COUNTING)) == {"//:t2", "//:t4"}
    workspace.check()
    assert nothing_to_do(workspace)


def test_an_executable_bit_is_content(workspace: Joins) -> None:
    (workspace.root / SOURCE).chmod(0o755)
    time.sleep(0.1)
    assert owners(workspace.built(program=COUNTING)) == {"//:t0", "//:t1"}
    assert nothing_to_do(workspace)


def test_equal_size_and_another_content(workspace: Joins) -> None:
    path = workspace.root / SOURCE
    path.write_text("x" * path.stat().st_size)
    os.utime(path, ns=(1, 1))
    time.sleep(0.1)
    assert owners(workspace.built(program=COUNTING)) == {"//:t0", "//:t1"}
    workspace.check()


def test_a_damaged_output_is_laid_out_again(workspace: Joins) -> None:
    (workspace.root / SOURCE).touch()
    made = workspace.root / "modelbuild-out/default/t9/made"
    made.unlink()
    assert not workspace.built(program=COUNTING)["up_to_date"]
    workspace.check()


def test_a_file_that_changes_again_at_once_is_noticed(workspace: Joins) -> None:
    """The stamp of a file that was just touched may stay the same when it is written to."""
    for number in range(5):
        (workspace.root / SOURCE).touch()
        workspace.built(program=COUNTING)
        super(Joins, workspace).write({SOURCE: f"{number}\n"})
        workspace.built(program=COUNTING)
        workspace.check()
