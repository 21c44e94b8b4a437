"""--target-pattern-file: targets from a file or standard input."""

from __future__ import annotations

import subprocess

import pytest

from tests.workspace_builder import Workspace

GROUPS = '[[filegroup]]\nname = "a"\nsrcs = ["x"]\n[[filegroup]]\nname = "b"\nsrcs = ["x"]\n'


@pytest.fixture
def groups(workspace: Workspace) -> Workspace:
    workspace.write({"MODELBUILD.toml": "", "m/BUILD.toml": GROUPS, "x": "", "m/x": "1"})
    return workspace


def test_targets_are_read_from_a_file_beside_comments_and_from_standard_input(groups: Workspace) -> None:
    groups.write({"m/list": "# all\n\n  //m/...  # and\n-//m:b\n"})
    listed = groups.run("build", "--target-pattern-file", "list", cwd=groups.root / "m")
    assert (listed.code, listed.out.splitlines()[0]) == (0, "//m:a")
    assert "//m:b" not in listed.out
    command = [*groups.program, "build", "--target-pattern-file=-"]
    ended = subprocess.run(
        command, cwd=groups.root, env=groups.environment(), input="//m:b\n", capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, "//m:b")


def test_an_edited_file_of_patterns_is_read_again(groups: Workspace) -> None:
    line = ("build", "--target-pattern-file", "list")
    for name in ("a", "b"):
        groups.write({"list": f"//m:{name}\n"})
        assert groups.run(*line).out.startswith(f"//m:{name}\n")


def test_a_profiles_file_of_patterns_is_in_the_workspace(groups: Workspace) -> None:
    groups.write({"MODELBUILD.toml": '[profile.nightly]\ntarget_pattern_file = "list"\n', "list": "//m:a\n"})
    assert groups.run("build", "--config", "nightly", cwd=groups.root / "m").out.startswith("//m:a\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("//m:a\n\n//m:c\n", "list:3: no target 'c' in //m"),
        ("//m:a\n//n/...\n", "list:2: no package in //n/..."),
        ("# x\n//m:a:b\n", "list:2: '//m:a:b' is not a target pattern; expected //package:name"),
        ("-//m:a\n", "list:1: '-//m:a' has nothing to subtract from"),
        ("# nothing\n", "list: no target; expected one pattern a line"),
        ("\udcff", "--target-pattern-file list: not UTF-8"),
        (None, "--target-pattern-file list: No such file or directory"),
    ],
)
def test_an_error_in_a_file_of_patterns_has_its_line(groups: Workspace, text: str | None, problem: str) -> None:
    if text is not None:
        (groups.root / "list").write_bytes(text.encode(errors="surrogateescape"))
    ended = groups.run("build", "--target-pattern-file", "list")
    assert (ended.code, len(ended.errors)) == (2, 1)
    assert ended.err.startswith(f"error: {problem}")


def test_targets_come_from_one_place(groups: Workspace) -> None:
    groups.write({"list": "//m:a\n"})
    ended = groups.run("build", "//m:b", "--target-pattern-file", "list")
    assert (ended.code, "expected one of them" in ended.err) == (2, True)
    assert groups.run("build").err.startswith("error: missing TARGET; expected patterns such as //...")
