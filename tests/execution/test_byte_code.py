"""Byte code beside a step's source is written once, and never used for another source."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from modelbuild.code.byte_code import keep_byte_code

COUNTING = """
import sys
compiled = []
sys.addaudithook(lambda event, given: compiled.append(given[1]) if event == "compile" else None)
"""
STEP = """
import json, sys
from tiny_rules import helper, counting
def run(step):
    ours = [name for name in counting.compiled if "tiny_rules" in str(name)]
    step.outputs["out"].write_text(json.dumps([helper.VALUE, ours]))
"""
MODULES = ("tiny_rules", "tiny_rules.counting", "tiny_rules.helper", "tiny_rules.tiny")


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


@pytest.mark.usefixtures("compiling")
def test_a_worker_compiles_nothing(bench: Any) -> None:
    bench.step("counting", COUNTING)
    bench.step("helper", "VALUE = 1")
    bench.step("tiny", STEP)
    assert bench.value("tiny", modules=MODULES) == [1, []]


@pytest.mark.usefixtures("compiling")
def test_a_source_of_the_same_size_and_time_is_another(bench: Any) -> None:
    bench.step("counting", COUNTING)
    bench.step("tiny", STEP)
    for value in (1, 2):
        bench.step("helper", f"VALUE = {value}")
        os.utime(bench.rules / "helper.py", (1_600_000_000, 1_600_000_000))
        bench.executor.close()
        bench.executor = bench.new_executor()
        assert bench.value("tiny", modules=MODULES)[0] == value


def test_byte_code_that_another_build_writes_meanwhile_fails_no_action(bench: Any) -> None:
    bench.step("helper", "VALUE = 1")
    bench.step("tiny", "from tiny_rules import helper\ndef run(step):\n    step.outputs['out'].write_text('1')")
    assert bench.value("tiny", modules=MODULES) == 1
    assert not list(bench.rules.rglob("*.pyc"))
    for file in bench.rules.glob("*.py"):
        keep_byte_code(file)
    assert bench.value("tiny", modules=MODULES) == 1


def test_where_python_may_not_write_byte_code_none_is(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    bench.step("tiny", "import json\ndef run(step):\n    step.outputs['out'].write_text(json.dumps(1))")
    assert bench.value("tiny", modules=("tiny_rules", "tiny_rules.tiny")) == 1
    assert not list(bench.rules.rglob("*.pyc"))


def test_right_byte_code_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("VALUE = 1")
    kept = Path(importlib.util.cache_from_source(file))
    keep_byte_code(file)
    before = kept.stat()
    keep_byte_code(file)
    assert kept.stat().st_ino == before.st_ino
    kept.write_bytes(kept.read_bytes()[:10])
    keep_byte_code(file)
    assert kept.stat().st_size == before.st_size


@pytest.mark.parametrize("content", ["def (", "\0", None])
def test_invalid_sources_are_left_to_the_worker(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "a.py"
    if content is not None:
        file.write_text(content)
    keep_byte_code(file)
    assert not list(tmp_path.rglob("*.pyc"))
