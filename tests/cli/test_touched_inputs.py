"""A new time of an action's input, with the same bytes, fails neither the action nor the build."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tests.script_rule import FILES, WAITS
from tests.workspace_builder import Workspace

TARGETS = """
[[script]]
name = "first"
srcs = ["first.py"]

[[script]]
name = "second"
srcs = ["second.py", ":first"]
"""
READS = """
from pathlib import Path

(made,) = [path for path in Path().rglob("out.txt") if ".outputs" not in path.parts]
"""


def declare(workspace: Workspace, second: str) -> None:
    files = {"a/BUILD.toml": TARGETS, "a/first.py": "result = 'x' * 200_000\n", "a/second.py": READS + second}
    workspace.write({**FILES, **files})


def test_a_step_that_touches_its_inputs(workspace: Workspace) -> None:
    """By a program: Python code may not."""
    touch = "import subprocess\nsubprocess.run(['touch', '-d', '2001-01-01', str(made), __file__], check=True)\n"
    declare(workspace, f"{touch}result = made.read_text()\n")
    ended = workspace.run("build", "//a:second")
    assert (ended.code, ended.errors) == (0, [])
    assert workspace.run("cache", "verify").code == 0


def test_a_check_of_the_cache_during_a_build(workspace: Workspace) -> None:
    declare(workspace, f"{WAITS}result = made.read_text()\n")
    build = workspace.start("build", "//a:second")
    begun: list[Path] = []
    while not begun and not build.over:
        workspace.wait_for_an_action(build)
        with suppress(FileNotFoundError):  # of an action that has ended meanwhile
            begun = list((workspace.cache / "tmp").glob("build-*/*/a/second.py"))
    assert workspace.run("cache", "verify").code == 0
    ended = workspace.let_go(build)
    assert (ended.code, ended.errors) == (0, [])
