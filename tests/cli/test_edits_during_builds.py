"""Code edited during a build: a result matches its key, or is not stored."""

from __future__ import annotations

import os
import py_compile
import time
from collections.abc import Callable
from typing import Any

import pytest

RULE = """
from modelbuild.api import Attrs, Context, Files, Output, Sources, rule

class LettersAttrs(Attrs):
    srcs: Sources
    waits: bool = False

@rule(attrs=LettersAttrs)
def letters(ctx: Context[LettersAttrs]) -> tuple[Files]:
    made = ctx.action(
        "letters",
        step="letters",
        inputs={"srcs": ctx.files(ctx.attrs.srcs)},
        outputs=[Output("out", "out.txt")],
        unkeyed={"waits": ctx.attrs.waits},
    )
    return (Files((made["out"],)),)
"""
# Reports its start, and waits for permission to continue.
STEP = """
import os, tempfile, time
from tools_rules.steps._words import words

def run(step):
    step.outputs["out"].touch()
    while step.params["waits"] and not os.path.exists(tempfile.gettempdir() + "/go"):
        time.sleep(0.01)
    step.outputs["out"].write_text(words(step.input("srcs").read_text()))
"""
WORDS = "def words(text):\n    return text.upper()\n"
BUILD = """
[[letters]]
name = "a_first"
srcs = ["one.txt"]
waits = {waits}

[[letters]]
name = "b_second"
srcs = ["two.txt"]
waits = {waits}
"""


@pytest.fixture
def letters(workspace: Any) -> Any:
    workspace.write(
        {
            "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
            "tools/rules/__init__.py": "",
            "tools/rules/letters.py": RULE,
            "tools/rules/steps/__init__.py": "",
            "tools/rules/steps/letters.py": STEP,
            "tools/rules/steps/_words.py": WORDS,
            "a/one.txt": "one",
            "a/two.txt": "two",
        }
    )
    return workspace


def build_and_edit(workspace: Any, edit: Callable[[], None]) -> tuple[int, str]:
    """Build with one job, and edit while one of two actions of a step runs; the exit code and stderr."""
    workspace.write({"a/BUILD.toml": BUILD.format(waits="true")})
    build = workspace.start("build", "//a/...", "-j1", "--quiet")
    workspace.wait_for_an_action(build)
    time.sleep(0.5)
    edit()
    ended = workspace.let_go(build)
    workspace.write({"a/BUILD.toml": BUILD.format(waits="false")})
    return ended.code, ended.err


def outputs(workspace: Any) -> list[str]:
    return [path.read_text() for path in sorted((workspace.root / "modelbuild-out").glob("default/a/*/out.txt"))]


def test_a_step_that_is_edited_gives_no_result_under_the_key_that_it_had(letters: Any) -> None:
    code, said = build_and_edit(letters, lambda: letters.edit("tools/rules/steps/_words.py", "upper", "title"))
    assert code == 1
    assert "module tools_rules.steps._words changed during the build; build again" in said
    letters.build("//a/...")
    assert outputs(letters) == ["One", "Two"]
    letters.edit("tools/rules/steps/_words.py", "title", "upper")
    letters.build("//a/...")
    assert outputs(letters) == ["ONE", "TWO"]


def test_a_rule_that_is_edited_is_seen_by_the_next_build(letters: Any) -> None:
    """The next build does not mistake it for the one of this build."""
    code, said = build_and_edit(letters, lambda: letters.edit("tools/rules/letters.py", '"out.txt"', '"new.txt"'))
    assert (code, said) == (0, "")
    assert len(outputs(letters)) == 2
    assert len(letters.ran("//a:b_second")) == 1
    assert (letters.root / "modelbuild-out/default/a/b_second/new.txt").exists()


@pytest.mark.parametrize("environment", [{}, {"PYTHONDONTWRITEBYTECODE": "1"}])
def test_a_rule_of_the_size_and_time_of_another_is_not_taken_for_it(letters: Any, environment: dict[str, str]) -> None:
    """Python's own byte code would be valid for any source with this time and size."""
    letters.write({"a/BUILD.toml": BUILD.format(waits="false")})
    rule = letters.root / "tools/rules/letters.py"
    for name in ("out.txt", "new.txt"):
        rule.write_text(RULE.replace("out.txt", name))
        os.utime(rule, (1_600_000_000, 1_600_000_000))
        letters.build("//a/...", **environment)
        assert (letters.root / "modelbuild-out/default/a/b_second" / name).exists()
        py_compile.compile(str(rule), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)


def test_a_source_that_is_edited_gives_no_result(letters: Any) -> None:
    code, said = build_and_edit(letters, lambda: letters.write({"a/one.txt": "new", "a/two.txt": "new"}))
    assert code == 1
    assert ".txt changed during the build; build again" in said
    assert outputs(letters) in (["ONE"], ["TWO"])  # of the action that had its copy
