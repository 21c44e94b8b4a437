"""Explanations of a chain of actions longer than Python's recursion limit, in work that grows with its length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelbuild.explain.text import verdict_lines
from modelbuild.explain.verdicts import explain
from modelbuild.history.action_facts import ActionFacts
from modelbuild.history.action_records import Records
from modelbuild.history.write import BuildFacts, remember
from modelbuild.store.database import Database

LENGTH = 3000


def fact(number: int, version: str, status: str) -> ActionFacts:
    """Return an action of the chain: the first reads a source, each other one the action before it."""
    maker = f"//:a{number - 1}#copy" if number else ""
    path = ".inputs/src.0/o" if number else "src.txt"
    material: dict[str, Any] = {
        **{"format": 1, "step": "s", "code": "c", "params": {}, "outputs": [], "tools": {}, "env": {}},
        **{"cpu": 1, "python": "3", "machine": "m", "inputs": [["src", path, f"{version}{number}"]]},
    }
    return ActionFacts(
        f"//:a{number}#copy", f"//:a{number}", "copy", f"{version}{number}", status, 0.0, material, {}, (maker,)
    )


def build(cache: Path, root: Path, *facts: ActionFacts) -> None:
    remember(cache, root, BuildFacts(1.0, True, {each.id: each for each in facts}, {}, {}))


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    chain = range(LENGTH)
    build(tmp_path, tmp_path, *(fact(n, "old", "ran") for n in chain))
    build(tmp_path, tmp_path, *(fact(n, "new", "ran") for n in chain))
    reads = 0
    read = Database.read

    def counted(*given: Any) -> Any:
        nonlocal reads
        reads += 1
        assert reads < 3 * LENGTH, "the history is read again for each pair of actions"
        return read(*given)

    monkeypatch.setattr(Database, "read", counted)
    return Records(tmp_path, tmp_path)


def test_each_action_of_a_long_chain_is_led_back_to_the_source(records: Records) -> None:
    verdicts = explain(records, f"//:a{LENGTH - 1}")
    assert [verdict.facts.id for verdict in verdicts] == [f"//:a{n}#copy" for n in range(LENGTH)]
    assert {verdict.reason for verdict in verdicts} == {"changed"}
    assert {(cause.difference.name, cause.action) for v in verdicts for cause in v.causes} == {
        ("src.txt", "//:a0#copy")
    }
    assert list(verdicts[3].causes[0].through or ()) == ["//:a2#copy", "//:a1#copy", "//:a0#copy"]


def test_a_long_way_is_shortened_in_text(records: Records) -> None:
    last = explain(records, f"//:a{LENGTH - 1}")[-1]
    line = list(verdict_lines(last))[1]
    assert line.startswith(f"  src.txt changed (old0 -> new0) (through //:a{LENGTH - 2}#copy <- ")
    assert line.endswith(" <- ...)")
    assert line.count(" <- ") == 10


def test_early_cutoffs_along_a_long_chain_name_the_nearest_action_that_ran(tmp_path: Path) -> None:
    build(tmp_path, tmp_path, *(fact(n, "old", "ran") for n in range(LENGTH)))
    build(tmp_path, tmp_path, fact(0, "new", "ran"), *(fact(n, "old", "cached") for n in range(1, LENGTH)))
    first, *rest = explain(Records(tmp_path, tmp_path), f"//:a{LENGTH - 1}")
    assert first.reason == "changed"
    assert {(verdict.reason, verdict.because) for verdict in rest} == {("cutoff", ("//:a0#copy",))}
