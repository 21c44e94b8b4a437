"""The rule of docs/how-to/custom-rule.md: a rule package of a workspace's own, loaded as the built-in ones are."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.workspace_builder import Workspace

BUILD = (
    '[[checksums]]\nname = "sums"\nsrcs = ["one.txt", ":more"]\n\n[[filegroup]]\nname = "more"\nsrcs = ["two.txt"]\n'
)
OUTPUT = "modelbuild-out/default/a/sums/sums.sha256"


@pytest.fixture
def rules(workspace: Any, example_rules: dict[str, str]) -> Any:
    workspace.write({**example_rules, "a/BUILD.toml": BUILD, "a/one.txt": "1\n", "a/two.txt": "2\n"})
    return workspace


def test_the_documented_rule_takes_at_most_50_lines(example_rules: dict[str, str]) -> None:
    lines = [line for name, text in example_rules.items() if name.endswith(".py") for line in text.splitlines()]
    assert len(lines) <= 50


def test_it_builds(rules: Any) -> None:
    assert rules.ran("//a:sums") == {"//a:sums#checksums"}
    expected = "".join(f"{hashlib.sha256(t).hexdigest()}  {n}\n" for n, t in [("one.txt", b"1\n"), ("two.txt", b"2\n")])
    assert (rules.root / OUTPUT).read_text() == expected


@pytest.mark.parametrize(
    ("change", "ran"),
    [
        ({}, set()),
        ({"a/unrelated.txt": "x"}, set()),
        ({"a/BUILD.toml": BUILD + "# comment\n"}, set()),
        ({"a/one.txt": "new"}, {"//a:sums#checksums"}),
        ({"a/two.txt": "new"}, {"//a:sums#checksums"}),
        ({"a/BUILD.toml": BUILD.replace("[[file", "uppercase = true\n[[file")}, {"//a:sums#checksums"}),
        ({"a/BUILD.toml": BUILD.replace('"one.txt", ":more"', '":more", "one.txt"')}, {"//a:sums#checksums"}),
        ({"tools/rules/steps/extra.py": "x = 1\n"}, set()),
        ({"tools/rules/other.py": "x = 1\n"}, set()),
    ],
)
def test_exactly_what_a_change_touches_runs_again(rules: Any, change: dict[str, str], ran: set[str]) -> None:
    rules.build("//a:sums")
    rules.write(change)
    assert rules.ran("//a:sums") == ran


def test_a_change_in_the_step_s_source_runs_it_again(rules: Any) -> None:
    rules.build("//a:sums")
    rules.edit("tools/rules/steps/checksums.py", "lines = []", "lines: list[str] = []")
    assert rules.ran("//a:sums") == {"//a:sums#checksums"}


def test_putting_a_change_back_runs_nothing(rules: Any) -> None:
    rules.build("//a:sums")
    rules.write({"a/one.txt": "new"})
    rules.build("//a:sums")
    rules.write({"a/one.txt": "1\n"})
    assert rules.ran("//a:sums") == set()
    assert hashlib.sha256(b"1\n").hexdigest() in (rules.root / OUTPUT).read_text()


def test_an_output_that_was_removed_or_changed_is_laid_out_again(rules: Any) -> None:
    rules.build("//a:sums")
    output = rules.root / OUTPUT
    before = output.read_text()
    output.unlink()
    assert rules.ran("//a:sums") == set()
    assert output.read_text() == before
    output.unlink()
    output.write_text("mine")
    assert rules.ran("//a:sums") == set()
    assert output.read_text() == before


def test_another_workspace_elsewhere_shares_the_cache(rules: Any, tmp_path: Any, example_rules: dict[str, str]) -> None:
    rules.build("//a:sums")
    other = Workspace(tmp_path / "elsewhere" / "deeper", cache=rules.cache)
    other.write({**example_rules, "a/BUILD.toml": BUILD, "a/one.txt": "1\n", "a/two.txt": "2\n"})
    assert other.ran("//a:sums") == set()


def test_reading_an_undeclared_file_names_it_and_where_to_add_it(rules: Any) -> None:
    rules.edit("tools/rules/steps/checksums.py", "lines = []", 'lines = [open("a/secret.txt").read()]')
    rules.write({"a/secret.txt": "s"})
    ended = rules.run("build", "//a:sums")
    assert ended.code == 1
    assert "a/secret.txt, which is not a declared input" in ended.err
    assert "//a:sums" in ended.err


def test_its_warnings_are_shown_and_lines_of_libraries_are_not(rules: Any) -> None:
    noise = 'import os, warnings\n    os.write(2, b"[cpuinfo_utils.cpp:71] Reading\\nprinted\\n")\n'
    rules.edit(
        "tools/rules/steps/checksums.py",
        "    lines = []",
        f'    {noise}    warnings.warn("of a step of the workspace")\n    raise ValueError("no")\n    lines = []',
    )
    ended = rules.run("build", "//a:sums")
    assert ended.code == 1
    assert "cpuinfo_utils" not in ended.err
    assert "\nprinted\n" in ended.err
    assert "UserWarning: of a step of the workspace\n" in ended.err
