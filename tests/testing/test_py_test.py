"""py_test through the command line: passed, failed, not run, cached and retried tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workspace_builder import Workspace

FILES = {
    "MODELBUILD.toml": "",
    "m/BUILD.toml": """
[[py_test]]
name = "good"
srcs = ["test_good.py", "code.py"]
data = ["data.txt"]
tags = ["quick"]
[[py_test]]
name = "bad"
srcs = ["test_bad.py"]
shard_count = 2
[[py_test]]
name = "skipped"
srcs = ["test_skipped.py"]
[[py_test]]
name = "slow"
srcs = ["test_slow.py"]
timeout = "1 s"
tags = ["manual"]
[[test_suite]]
name = "suite"
tests = [":good", ":skipped"]
[[filegroup]]
name = "files"
srcs = ["data.txt"]
""",
    "m/code.py": "def double(x):\n    return 2 * x\n",
    "m/data.txt": "4",
    "m/test_good.py": """
from pathlib import Path
import pytest
from m.code import double

def test_double():
    assert double(2) == int(Path("m/data.txt").read_text())

@pytest.mark.skip(reason="no GPU here")
def test_on_a_gpu():
    raise AssertionError
""",
    "m/test_bad.py": """
def test_right():
    print("printed by the right one")

def test_wrong():
    print("printed by the wrong one")
    assert 1 + 1 == 3
""",
    "m/test_skipped.py": """
import pytest

pytest.skip("this machine has no cable", allow_module_level=True)
""",
    "m/test_slow.py": "def test_slow():\n    while True:\n        pass\n",
}
# A test that is not run, with a dependency that must be built.
GENERATED = {
    "MODELBUILD.toml": 'rules = ["//rules"]\n',
    "rules/__init__.py": "",
    "rules/made.py": """
from modelbuild.api import Attrs, Context, Files, Output, rule

@rule(attrs=Attrs)
def made(ctx: Context[Attrs]) -> tuple[Files]:
    return (Files((ctx.action("make", step="make", inputs={}, outputs=[Output("out", "out.txt")])["out"],)),)
""",
    "rules/steps/__init__.py": "",
    "rules/steps/make.py": "def run(step):\n    step.outputs['out'].write_text('made')\n",
    "g/test_good.py": "def test_good():\n    pass\n",
    "g/test_skipped.py": FILES["m/test_skipped.py"],
    "g/BUILD.toml": """
[[made]]
name = "made"
[[py_test]]
name = "good"
srcs = ["test_good.py"]
[[py_test]]
name = "skipped"
srcs = ["test_skipped.py"]
data = [":made"]
tags = ["gpu"]
""",
}


class PyTests(Workspace):
    def test(self, *arguments: str, code: int = 0, **environment: str) -> dict[str, Any]:
        """Run tests; return the report of each, by name."""
        tests = super().test(*arguments, code=code, **environment)
        return {label.partition(":")[2]: test for label, test in tests.items()}


@pytest.fixture
def workspace(tmp_path: Path) -> PyTests:
    return PyTests(tmp_path, FILES)


def test_how_tests_end(workspace: PyTests) -> None:
    ended = workspace.test("//...", code=4)
    assert {name: test["status"] for name, test in ended.items()} == {
        "good": "passed",
        "bad": "failed",
        "skipped": "not_run",
    }
    assert [(c["name"], c["status"], c["message"]) for c in ended["good"]["cases"]] == [
        ("m/test_good.py::test_double", "passed", ""),
        ("m/test_good.py::test_on_a_gpu", "not_run", "no GPU here"),
    ]
    (wrong,) = [case for case in ended["bad"]["cases"] if case["status"] == "failed"]
    assert (wrong["name"], wrong["place"]) == ("m/test_bad.py::test_wrong", "m/test_bad.py:7")
    assert "assert (1 + 1) == 3" in wrong["message"]
    assert "printed by the wrong one" in ended["bad"]["output"]
    assert ended["skipped"]["reason"] == "this machine has no cable"
    assert ended["bad"]["location"] == "m/BUILD.toml:7:1"
    assert json.loads((workspace.root / "modelbuild-out/default/m/good/report.json").read_text())["status"] == "passed"


def test_files_of_targets_lie_below_their_targets(tmp_path: Path) -> None:
    tests = """
from pathlib import Path

def test_there():
    assert Path("g/made/out.txt").read_text() == "made"

def test_elsewhere():
    open("out.txt")
"""
    build = GENERATED["g/BUILD.toml"] + '[[py_test]]\nname = "reads"\nsrcs = ["test_reads.py"]\ndata = [":made"]\n'
    workspace = PyTests(tmp_path, GENERATED | {"g/BUILD.toml": build, "g/test_reads.py": tests})
    there, elsewhere = workspace.test("//g:reads", code=4)["reads"]["cases"]
    assert there["status"] == "passed"
    assert elsewhere["message"] == (
        "FileNotFoundError: [Errno 2] No such file or directory: 'out.txt'; the inputs of this name are g/made/out.txt"
    )


def test_a_file_of_a_target_and_a_file_of_the_workspace_at_one_path_are_an_error(tmp_path: Path) -> None:
    build = GENERATED["g/BUILD.toml"].replace('data = [":made"]', 'data = [":made", "made/out.txt"]')
    workspace = PyTests(tmp_path, GENERATED | {"g/BUILD.toml": build, "g/made/out.txt": "mine"})
    failed = workspace.run("test", "//g:skipped")
    assert failed.code == 3
    assert "//g:skipped reads two files at g/made/out.txt; expected one, with the other renamed" in failed.err


def test_only_passed_results_are_cached(workspace: PyTests) -> None:
    workspace.test("//...", code=4)
    again = workspace.test("//...", code=4)
    assert {name: test["cached"] for name, test in again.items()} == {"good": True, "bad": False, "skipped": False}
    assert not workspace.test("//m:good", "--no-cache-test-results")["good"]["cached"]
    workspace.write({"m/data.txt": "5"})
    assert workspace.test("//m:good", code=4)["good"]["status"] == "failed"


def test_a_skip_is_no_pass_where_all_is_required(workspace: PyTests) -> None:
    assert workspace.test("//m:suite", code=36).keys() == {"good", "skipped"}
    required = workspace.test("//m:suite", "--require-all", code=4)
    assert {test["status"] for test in required.values()} == {"failed"}
    assert required["good"]["reason"] == (
        "not run, which --require-all forbids: m/test_good.py::test_on_a_gpu: no GPU here"
    )
    assert "this machine has no cable" in required["skipped"]["reason"]


def test_runs_and_attempts(workspace: PyTests) -> None:
    test = workspace.test("//m:bad", "--flaky-attempts", "2", code=4)["bad"]
    assert (test["attempts"], test["passed"]) == (2, 0)
    test = workspace.test("//m:good", "--runs-per-test", "3")["good"]
    assert (test["attempts"], test["passed"], test["cached"]) == (3, 3, False)


def test_a_test_that_takes_too_long(workspace: PyTests) -> None:
    test = workspace.test("//m:slow", code=4)["slow"]
    assert (test["status"], test["reason"]) == ("failed", "took longer than its timeout")


def test_tags_choose(workspace: PyTests) -> None:
    assert workspace.test("//...", "--test-tag-filters", "quick").keys() == {"good"}
    assert workspace.test("//...", "--test-tag-filters=-quick", code=4).keys() == {"bad", "skipped"}


def test_dependencies_of_skipped_tests_are_built_unless_filtered(workspace: PyTests) -> None:
    workspace.write(GENERATED)

    def ran(*options: str, code: int) -> set[str]:
        ended = workspace.run("test", "//g:all", *options, "--json")
        assert ended.code == code, ended.err
        return {action["owner"] for action in ended.json["actions"] if action["status"] == "ran"}

    assert ran("--test-tag-filters=-gpu", code=0) == {"//g:good"}
    assert ran(code=36) == {"//g:made", "//g:skipped"}


def test_lines(workspace: PyTests) -> None:
    ended = workspace.run("test", "//m:good", "//m:skipped")
    assert ended.code == 36
    assert "1 test did not run here: expected what the reasons name, or a choice of other tests" in ended.err
    lines = ended.out.splitlines()
    assert lines[0].startswith("//m:good  PASSED  ")
    assert lines[1] == "  m/test_good.py::test_on_a_gpu was not run: no GPU here"
    assert lines[2] == "//m:skipped  NOT RUN: this machine has no cable"
    assert lines[3] == "2 tests: 1 passed, 1 not run"
    ended = workspace.run("test", "//m:files")
    assert (ended.code, ended.err) == (2, "error: no test in //m:files\n")


def test_asked_again_it_runs_after_changes_only(workspace: PyTests) -> None:
    first = workspace.run("test", "//m:good").out.splitlines()
    assert first[0].startswith("//m:good  PASSED  ")
    again = workspace.run("test", "//m:good")
    assert again.code == 0
    *lines, summary, _ = again.out.splitlines()
    assert lines == ["//m:good  PASSED  cached", *first[1:-2]]
    assert summary == "1 test: 1 passed (1 cached)"
    report = workspace.root / "modelbuild-out/default/m/good/report.json"
    report.unlink()
    workspace.run("test", "//m:good")
    assert report.exists()
    workspace.write({"m/data.txt": "5"})
    assert workspace.run("test", "//m:good").code == 4
    # Tests that were not run are tried again, and building tests does not run them.
    for _ in range(2):
        assert "NOT RUN" in workspace.run("test", "//m:skipped").out
    assert "NOT RUN" not in workspace.run("build", "//m:skipped").out


def test_building_a_test_does_not_run_it(workspace: PyTests) -> None:
    ended = workspace.run("build", "//m:bad", "--json")
    assert ended.code == 0
    assert ended.json["counts"]["ran"] == 0
