"""Builds and tests that restart because an action's outputs differ from its cached result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MADE, SUMS = "//a:made#blobs", "//a:sums#checksums"
CHECK = """
[[py_test]]
name = "check"
srcs = ["test_check.py"]
data = [":made", ":sums"]
"""
TEST = """
import hashlib
from pathlib import Path


def test_sums_are_of_what_was_made():
    big, sums = Path("a/made/big.bin"), Path("a/sums/sums.sha256")
    assert hashlib.sha256(big.read_bytes()).hexdigest() in sums.read_text()
"""


@pytest.fixture
def shaken(place: Any, tmp_path: Path) -> Callable[[str], tuple[Any, str]]:
    """Return workspaces whose first action has different outputs each time, with a cache that lost the blobs of its
    first result."""
    cache = f"--remote-cache=file://{tmp_path}/objects"

    def make(name: str) -> Any:
        made = place(name)
        step = (made.root / "tools/rules/steps/blobs.py").read_text()
        made.write({"tools/rules/steps/blobs.py": step.replace("block = b", "import os; block = os.urandom(8192) + b")})
        made.write({"a/BUILD.toml": (made.root / "a/BUILD.toml").read_text() + CHECK})
        made.write({"a/test_check.py": TEST})
        return made

    make("first").build(cache, target="//a:sums")
    for blob in (tmp_path / "objects/cas").iterdir():
        if blob.stat().st_size > 100_000:
            blob.unlink()
    return lambda name: (make(name), cache)


def the_notice(text: str) -> str:
    (said,) = (line for line in text.splitlines() if line.startswith("note:"))
    return str(said)


def sums_fit(made: Any) -> bool:
    outputs = made.outputs()
    (big, _), (sums, _) = outputs["a/made/big.bin"], outputs["a/sums/sums.sha256"]
    return hashlib.sha256(big).hexdigest().encode() in sums


def test_a_build_stands_on_what_was_made_now(shaken: Any) -> None:
    (two, cache), (three, _) = shaken("two"), shaken("three")
    sums = (two.root / "tools/rules/steps/checksums.py").read_text()
    for each in (two, three):
        each.write({"tools/rules/steps/checksums.py": sums + "\n"})
    ended = two.build(cache)
    assert "the outputs of //a:made#blobs differ from its cached result" in the_notice(ended.err)
    assert sums_fit(two)
    # The new result is in the cache.
    assert three.build(cache).statuses == {MADE: "cached", SUMS: "cached"}
    assert three.outputs() == two.outputs()


def test_each_action_and_target_is_told_of_once(shaken: Any) -> None:
    two, cache = shaken("two")
    # An action that runs the first time, and is found in the cache the second time.
    two.write({"b/BUILD.toml": '[[blobs]]\nname = "other"\nsrcs = ["seed.txt"]\n'})
    two.write({"b/seed.txt": "another\n"})
    ended = two.build(cache, "-j1", target="//...")
    told = json.loads(ended.out)
    assert "restarting" in the_notice(ended.err)
    assert sums_fit(two)
    ids = [action["id"] for action in told["actions"]]
    assert len(ids) == len(set(ids))
    counted = {status: sum(a["status"] == status for a in told["actions"]) for status in ("ran", "cached", "failed")}
    assert {**counted, "actions": len(ids)} == told["counts"]
    assert ended.statuses["//b:other#blobs"] == ended.statuses[SUMS] == "ran"
    labels = [target["label"] for target in told["targets"]]
    assert len(labels) == len(set(labels))
    assert two.run("build", "//...", cache).out.splitlines()[-1].startswith("Nothing to do")


def test_tests_stand_on_what_was_made_now(shaken: Any) -> None:
    two, cache = shaken("two")
    ended = two.run("test", "//a:check", "--json", cache)
    told = json.loads(ended.out)
    assert ended.code == 0, ended.err
    assert "the outputs of //a:made#blobs differ from its cached result" in the_notice(ended.err)
    (test,) = told["tests"]
    assert (test["label"], test["status"]) == ("//a:check", "passed")
    assert ended.statuses[SUMS] == "ran"
    assert len(ended.statuses) == len(told["actions"]) == told["counts"]["actions"]
    assert two.run("test", "//a:check", cache).code == 0
