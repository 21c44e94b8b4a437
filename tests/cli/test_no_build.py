"""--no-build: load and analyse, and print what would be built."""

from __future__ import annotations

import pytest

from tests.stages import Stages
from tests.workspace_builder import Workspace

MATRIX = """
[[py_test]]
name = "t"
srcs = ["test_t.py"]
[[filegroup]]
name = "f{n}"
srcs = ["x"]
matrix = { n = [1, 2] }
"""


@pytest.mark.parametrize("flag", ["--no-build", "--nobuild"])
def test_targets_and_actions_are_counted_and_none_runs(stages: Stages, flag: str) -> None:
    stages.declare(one={}, two={"srcs": [":one"]})
    planned = stages.workspace.run("build", "//...", flag)
    assert (planned.code, planned.err) == (0, "")
    assert planned.out == "//a:one\n//a:two\nWould build 2 targets: 2 actions, 0 cached, 2 to run\n"
    assert not list((stages.workspace.root / "modelbuild-out").glob("default/**/*"))
    stages.workspace.build("//a:one")
    found = stages.workspace.run("build", "//...", flag, "--json").json
    assert found["counts"] == {"actions": 2, "ran": 0, "cached": 1, "failed": 0}
    assert found["targets"][1] == {"label": "//a:two", "config": "default", "built": False, "because": "--no-build"}


def test_errors_in_declarations_end_with_their_code_although_nothing_would_run(stages: Stages) -> None:
    stages.declare(one={}, two={"srcs": ["missing"]})
    assert stages.workspace.run("build", "//a:one", "--no-build").code == 0
    ended = stages.workspace.run("build", "//...", "--no-build")
    assert (ended.code, len(ended.errors)) == (3, 1)
    kept = stages.workspace.run("build", "//...", "--no-build", "-k")
    assert (kept.code, "//a:one" in kept.out) == (3, True)


def test_test_and_ci_plan_tests(workspace: Workspace) -> None:
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": MATRIX, "x": "", "test_t.py": "def test_a():\n    pass\n"})
    assert workspace.run("test", "//...", "--no-build").out.startswith("//:t\nWould build 1 target: 1 action, 0 c")
    assert workspace.run("ci", "--no-build").out.startswith("//:f1\n//:f2\n//:t\nWould build 3 targets: 1 action")
