"""Facts that are damaged, in a file that is compared with or in the history: one line, or as if they were not there."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from modelbuild.errors import UsageError
from modelbuild.explain.causes import Causes, Times
from modelbuild.explain.changed_since import ChangedSince
from modelbuild.explain.text import BuildTime, explanation_json, explanation_lines, verdict_json, verdict_lines
from modelbuild.explain.verdicts import Verdict, explain, last_success
from modelbuild.history.action_facts import ActionFacts
from modelbuild.history.action_records import Records
from modelbuild.history.database import pack, read_object, unpack
from modelbuild.history.estimates import target_estimates
from modelbuild.history.measurements import Measures
from modelbuild.history.revisions import read_measures, write_measures
from modelbuild.history.stored_facts import load_dump
from modelbuild.wording import number
from tests.hostile import NASTY, cases, damaged, mutated, run_property


def fact(name: str, key: str, digest: str, maker: str = "") -> dict[str, Any]:
    material = {
        **{"format": 1, "step": "s", "code": "c", "params": {"a": [1, {"b": None}]}, "outputs": [["o", "o", "file"]]},
        **{"inputs": [["srcs", "a.py", digest], ["made", ".inputs/made.0/x", digest]], "tools": {"t": "1"}, "env": {}},
        **{"cpu": 1, "python": "3.11", "machine": "x86_64"},
    }
    place = {"worker": "w", "queued": 1.5, "fetching": 0.0, "running": 1.0, "sending": 0.2}
    return {
        **{"id": name, "owner": name.partition("#")[0], "mnemonic": "m", "key": key, "status": "ran", "seconds": 1.5},
        **{"material": material, "modules": {"s": digest}, "makers": ["", maker], "outputs": {"o": digest}},
        "place": place,
    }


def dump(key: str, digest: str) -> dict[str, Any]:
    target = {"rule": "r", "attributes": {"level": key}, "needs": ["//:b"]}
    return {
        "version": 1,
        "actions": [fact("//:a#x", key, digest, "//:b#x"), fact("//:b#x", key, digest)],
        "targets": {"//:a": target, "//:b": {**target, "needs": []}},
    }


MINE = load_dump(json.dumps(dump("k1", "d1")).encode())


@cases(150, 5_000)
def test_a_damaged_dump_is_compared_with_or_refused(examples: int) -> None:
    def holds(content: bytes) -> None:
        with suppress(ValueError):
            compare(*load_dump(content))

    def compare(actions: dict[str, ActionFacts], targets: dict[str, dict[str, Any]]) -> None:
        why = Causes(Times(actions.get, MINE[0].get, targets.get, MINE[1].get))
        for name, facts in MINE[0].items():
            verdict = Verdict(facts, "changed", why.of(name))
            json.dumps(verdict_json(verdict))
            list(verdict_lines(verdict))
        for facts in actions.values():
            list(verdict_lines(Verdict(facts, "unchanged")))

    good = dump("k2", "d2")
    changed = mutated(good).map(lambda tables: json.dumps(tables, default=repr).encode())
    run_property(examples, changed | damaged(json.dumps(good).encode()), holds)


@pytest.mark.parametrize("place", [{}, {"worker": "w"}, {"queued": 3.0}])
def test_a_place_may_lack_members(place: dict[str, Any]) -> None:
    good = dump("k", "d")
    good["actions"][0]["place"] = place
    actions, _ = load_dump(json.dumps(good).encode())
    facts = actions["//:a#x"]
    assert (facts.place is None) == (not place)
    assert next(iter(verdict_lines(Verdict(facts, "unchanged")))).startswith("//:a#x  ran (1.5 s")


NO_DUMP = {
    b"\xff": "Invalid JSON: ",
    b"[" * 100_000: "Invalid JSON: recursion limit exceeded",
    b'{"version": 2, "actions": [], "targets": {}}': "version: Input should be 1",
    b'{"version": 1, "actions": [{}], "targets": {}}': "actions[0].id: Field required",
    b'{"version": 1, "actions": [], "targets": {"a": {"needs": 3}}}': "targets.a.rule: Field required",
}


def test_a_file_that_is_no_dump_is_told_by_its_place(models: Any, tmp_path: Path) -> None:
    models.build_app()
    path = tmp_path / "keys.json"
    for content, problem in NO_DUMP.items():
        path.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            models.explain("--against", str(path))
        assert str(caught.value).startswith(f"{path}: {problem}")
        assert str(caught.value).endswith("; expected a file that explain --dump wrote")
    with pytest.raises(UsageError, match=r"none/x\.json: No such file or directory"):
        models.invoke("explain", "//:app", "--dump", str(tmp_path / "none/x.json"))


COLUMNS = {
    "actions": ("id", "owner", "first", "last", "key", "status", "seconds", "parts", "code", "place"),
    "targets": ("node", "first", "last", "parts"),
    "parts": ("hash", "data"),
    "builds": ("at", "seconds", "ok"),
    "measures": ("subject", "name", "at", "value", "key"),
}
SPOILED = (
    *(None, "", "x", "\0", -1, 1e300, float("inf"), b"", b"\xff", b"x" * 20, "[]", "{}", 2**62),
    *(pack("[]"), pack("{}"), pack('{"material": {}, "makers": 3}')),
)


def read_all(cache: Path, root: Path) -> None:
    """Read everything that commands read from a history."""
    records = Records(cache, root)
    verdicts = explain(records, "//:app")
    success = last_success(records, "//:app")
    built = BuildTime(records.built_at(success or 0), success is not None)
    list(explanation_lines("//:app", built, ChangedSince(), verdicts, None))
    json.dumps(explanation_json("//:app", built, ChangedSince(), verdicts, None))
    measures = Measures(cache, root)
    for (subject, name), points in measures.series("//:app").items():
        assert all(number(point.value) for point in points)
        assert measures.last(subject, name) == points[-1].value
    assert all(isinstance(seconds, float) for seconds in target_estimates(cache, ["//:app"]).values())


def test_rows_of_the_history_that_are_damaged_are_none(models: Any, tmp_path: Path) -> None:
    models.build_app()
    (history,) = (tmp_path / "cache").glob("history-*.db")
    with closing(sqlite3.connect(history)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    read_all(tmp_path / "cache", models.root)
    places = ((table, column) for table, columns in COLUMNS.items() for column in columns)
    for (table, column), value in product(places, SPOILED):
        cache = tmp_path / "spoiled"
        cache.mkdir()
        shutil.copy(history, cache)
        with closing(sqlite3.connect(cache / history.name)) as connection, suppress(sqlite3.IntegrityError):
            connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ?", (value,))
            connection.commit()
        read_all(cache, models.root)
        shutil.rmtree(cache)


@pytest.mark.parametrize("data", [None, 1, "x", b"", b"\xff" * 9, pack("[" * 100_000), pack("[]"), pack("\ud7ff")])
def test_unpacked_data_are_refused(data: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        unpack(data)


REPORT = {("//m:a (cpu)", "bytes"): 5.0, ("//m:a (cpu)", "seconds"): 1.5}


@cases(150, 2_000)
def test_damaged_reports_of_other_jobs_are_read_or_refused(tmp_path: Path, examples: int) -> None:
    path = tmp_path / "report.json"
    write_measures(path, "c0ffee", REPORT)
    assert read_measures(path) == ("c0ffee", REPORT)
    good = path.read_bytes()

    def holds(content: bytes) -> None:
        path.write_bytes(content)
        with suppress(UsageError):
            commit, values = read_measures(path)
            assert commit is None or isinstance(commit, str)
            assert all(value - value == 0 for value in values.values())

    changed = mutated(json.loads(good)).map(lambda tables: json.dumps(tables, default=repr).encode())
    run_property(examples, changed | damaged(good), holds)


@pytest.mark.parametrize("text", [*NASTY, "[" * 100_000, "9" * 5000, "[]", '"a"', None, b"\xff"])
def test_other_values_than_objects_are_refused(text: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_object(text)
