"""A step whose source changed since its key was computed has no result."""

from __future__ import annotations

import importlib.util
import os
import py_compile
from pathlib import Path
from typing import Any

import pytest

HELPER = "VALUE = {}\n"
STEP = """
    from tiny_rules import helper
    def run(step):
        step.outputs["out"].write_text(str(helper.VALUE))
"""
MODULES = ("tiny_rules", "tiny_rules.helper", "tiny_rules.tiny")
PROBLEM = "module tiny_rules.helper changed during the build; build again"


@pytest.fixture
def tiny(bench: Any) -> Any:
    bench.step("helper", HELPER.format(1))
    bench.step("tiny", STEP)
    return bench


def value(bench: Any, number: int, **options: Any) -> Any:
    """Return an action's output, which is its version's number; or the problem, if it failed."""
    outcome = bench.run("tiny", modules=MODULES, params={"n": number}, **options)
    return outcome.problem or bench.text(outcome.result.output("out").digest)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_an_edit_between_key_and_run_fails_the_action(tiny: Any, before: int) -> None:
    """This holds even if actions ran the step before the edit."""
    for number in range(before):
        assert value(tiny, number) == "1"
    stale = tiny.request("tiny", modules=MODULES, params={"n": "stale"})
    tiny.step("helper", HELPER.format(2))
    outcome = tiny.executor.run(stale)
    assert (outcome.result, outcome.problem) == (None, PROBLEM)


def test_an_edit_before_it_is_imported_ahead_fails_the_action(tiny: Any) -> None:
    stale = tiny.request("tiny", modules=MODULES, preload=("tiny_rules.helper",))
    tiny.step("helper", HELPER.format(2))
    assert tiny.executor.run(stale).problem == PROBLEM


def test_an_edit_that_makes_the_step_fail_is_said_first(tiny: Any) -> None:
    stale = tiny.request("tiny", modules=MODULES)
    tiny.step("helper", "OTHER = 1\n")
    assert tiny.executor.run(stale).problem == PROBLEM


def test_an_edit_that_was_taken_back_is_none(tiny: Any) -> None:
    stale = tiny.request("tiny", modules=MODULES)
    tiny.step("helper", HELPER.format(2))
    tiny.step("helper", HELPER.format(1))
    assert tiny.executor.run(stale).problem == ""


def test_byte_code_of_another_source_with_its_size_and_time_is_not_used(
    tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if Python may not write byte code, so that the existing one cannot be replaced."""
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    file = tiny.rules / "helper.py"
    kept = Path(importlib.util.cache_from_source(file))
    for written, mode in ((1, "TIMESTAMP"), (2, None), (3, "UNCHECKED_HASH"), (4, None)):
        tiny.step("helper", HELPER.format(written))
        os.utime(file, (1_600_000_000, 1_600_000_000))
        if mode:
            py_compile.compile(str(file), str(kept), invalidation_mode=py_compile.PycInvalidationMode[mode])
            continue
        tiny.executor.close()
        tiny.executor = tiny.new_executor()
        assert value(tiny, written) == str(written)
        assert kept.exists()
