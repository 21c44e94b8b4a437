"""--test-filter and --test-output of py_test through the command line."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workspace_builder import Workspace

BUILD = """
[[py_test]]
name = "two"
srcs = ["test_two.py"]
shard_count = 2
[[py_test]]
name = "other"
srcs = ["test_other.py"]
"""
TWO = """
import pytest

def test_one():
    pass

class TestMany:
    @pytest.mark.parametrize("x", [1, 2])
    def test_many(self, x):
        assert x == 1
"""


@pytest.fixture
def tests(workspace: Workspace) -> Workspace:
    workspace.write({"MODELBUILD.toml": "", "m/BUILD.toml": BUILD, "m/test_two.py": TWO})
    workspace.write({"m/test_other.py": "def test_other():\n    print('said')\n"})
    return workspace


def cases(tests: dict[str, Any]) -> list[str]:
    return sorted(case["name"].partition("::")[2] for test in tests.values() for case in test["cases"])


@pytest.mark.parametrize(
    ("test_filter", "expected", "code"),
    [
        ("one or other", ["test_one", "test_other"], 0),
        ("m/test_two.py::TestMany", ["TestMany::test_many[1]", "TestMany::test_many[2]"], 4),
        ("test_two.py::TestMany::test_many[1]", ["TestMany::test_many[1]"], 0),
        ("TestMany::test_many", ["TestMany::test_many[1]", "TestMany::test_many[2]"], 4),
    ],
)
def test_a_filter_selects_cases_by_expression_or_id(
    tests: Workspace, test_filter: str, expected: list[str], code: int
) -> None:
    assert cases(tests.test("//...", "--test-filter", test_filter, code=code)) == expected


def test_a_part_of_a_tests_cases_is_never_taken_for_all_of_them(tests: Workspace) -> None:
    line = ("test", "//m:two", "--test-filter", "one")
    assert tests.run(*line).code == 0  # a shard has no case
    assert cases(tests.test("//m:two", code=4)) == ["TestMany::test_many[1]", "TestMany::test_many[2]", "test_one"]
    assert tests.run(*line).code == 0


@pytest.mark.parametrize(
    ("test_filter", "problem"),
    [
        (
            "test_onne",
            "error: --test-filter: //m:two: no case matches 'test_onne'; did you mean 'test_one'?",
        ),
        (
            "m/test_two.py::test_ona",
            "no case matches 'm/test_two.py::test_ona'; did you mean 'm/test_two.py::test_one'?",
        ),
        ("one or", "'one or' is no expression that pytest's -k accepts"),
    ],
)
def test_a_filter_without_a_case_is_an_error(tests: Workspace, test_filter: str, problem: str) -> None:
    ended = tests.run("test", "//m:two", "--test-filter", test_filter)
    assert (ended.code, len(ended.errors)) == (2, 1)
    assert problem in ended.errors[0]


def test_a_rule_without_cases_refuses_a_filter(workspace: Workspace, repository: Any) -> None:
    rule = """
from modelbuild.api import Attrs, Output, TestAction, rule

@rule(attrs=Attrs)
def my_test(ctx):
    return (TestAction((ctx.action("test", step="my", outputs=[Output("report", "r.json")])["report"],)),)
"""
    workspace.write({"MODELBUILD.toml": 'rules = ["//r"]\n', "BUILD.toml": '[[my_test]]\nname = "t"\n'})
    workspace.write({"r/__init__.py": "", "r/my.py": rule, "r/steps/__init__.py": "", "r/steps/my.py": ""})
    ended = workspace.run("test", "//:t", "--test-filter", "x")
    assert ended.err == "error: rule 'my_test' of //:t selects no cases by --test-filter\n"
    assert ended.code == 2


def test_output_is_printed_of_no_test_of_failed_ones_or_of_all(tests: Workspace) -> None:
    def printed(*flags: str) -> list[str]:
        ended = tests.run("test", "//...", *flags)
        assert ended.code == 4
        return [line for line in (ended.out + ended.err).splitlines() if line.startswith("--- output of")]

    assert printed() == printed("--test-output=errors") == ["--- output of //m:two"]
    assert printed("--test-output=summary") == []
    assert sorted(printed("--test-output=all")) == ["--- output of //m:other", "--- output of //m:two"]
    for _ in range(2):  # of a cached result, and of one that is printed from the record
        assert "--- output of //m:other" in tests.run("test", "//m:other", "--test-output=all").out
    assert "--- output of" not in tests.run("test", "//m:other").out
