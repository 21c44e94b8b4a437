"""`modelbuild fmt`: files by pattern and path, sorted attributes, `--check`, and errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.analysis.attribute_order import attribute_order
from modelbuild.analysis.rules import load_rules
from modelbuild.cli import invoke
from modelbuild.errors import ExitCode
from tests.workspace_builder import Workspace

Fmt = Callable[..., tuple[int, str, str]]

BEFORE = """# Models.
[[torch_model]]
inputs=[{name="x",shape=[1],dtype="float32"}]   # one
tags = ["slow"]
# The class.
entry='net.py:Net'
srcs = ["net.py"]
name = "net"
[[unknown_rule]]
b = 1
name = "x"
"""
AFTER = """# Models.
[[torch_model]]
name = "net"
# The class.
entry = "net.py:Net"
srcs = ["net.py"]
inputs = [{ name = "x", shape = [1], dtype = "float32" }]  # one
tags = ["slow"]

[[unknown_rule]]
b = 1
name = "x"
"""
FILES = ("BUILD.toml", "a/BUILD.toml", "a/b/BUILD.toml")


@pytest.fixture
def fmt(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> Fmt:
    """Return a function that runs `modelbuild fmt ...` in a workspace with three packages."""
    workspace.write({"MODELBUILD.toml": "rules=[]\n", "a/b/c/x.txt": "", **dict.fromkeys(FILES, BEFORE)})

    def run(*arguments: str, folder: str = ".") -> tuple[int, str, str]:
        code = invoke(["-C", str(workspace.root / folder), "fmt", *arguments])
        return code, *capsys.readouterr()

    return run


def formatted(workspace: Workspace) -> list[str]:
    """Return the files that are formatted; the others must be as they were."""
    texts = {name: (workspace.root / name).read_text() for name in FILES}
    assert set(texts.values()) <= {BEFORE, AFTER}
    return [name for name, text in texts.items() if text == AFTER]


def test_formats_every_package_and_names_the_files_that_changed(fmt: Fmt, workspace: Workspace) -> None:
    assert fmt() == (0, "BUILD.toml\na/BUILD.toml\na/b/BUILD.toml\n", "")
    assert formatted(workspace) == list(FILES)
    assert fmt() == (0, "", "")
    assert (workspace.root / "MODELBUILD.toml").read_text() == "rules=[]\n"


def test_check_names_the_files_and_changes_none(fmt: Fmt, workspace: Workspace) -> None:
    assert fmt("--check") == (ExitCode.BUILD_FAILED, "BUILD.toml\na/BUILD.toml\na/b/BUILD.toml\n", "")
    assert formatted(workspace) == []
    fmt()
    assert fmt("--check") == (0, "", "")


@pytest.mark.parametrize(
    ("folder", "arguments", "expected"),
    [
        (".", ["//a"], ["a/BUILD.toml"]),
        (".", ["//a:all"], ["a/BUILD.toml"]),
        (".", ["//a/..."], ["a/BUILD.toml", "a/b/BUILD.toml"]),
        (".", ["a/b/BUILD.toml", "//:all"], ["a/b/BUILD.toml", "BUILD.toml"]),
        ("a", ["BUILD.toml"], ["a/BUILD.toml"]),
        ("a", ["..."], ["a/BUILD.toml", "a/b/BUILD.toml"]),
        ("a", ["../BUILD.toml", "//a:net", "//a"], ["BUILD.toml", "a/BUILD.toml"]),
    ],
)
def test_patterns_and_paths(
    fmt: Fmt, workspace: Workspace, folder: str, arguments: list[str], expected: list[str]
) -> None:
    assert fmt(*arguments, folder=folder) == (0, "".join(f"{name}\n" for name in expected), "")
    assert formatted(workspace) == sorted(expected)


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["//none"], ExitCode.USAGE, "no package //none: there is no none/BUILD.toml"),
        (["none/BUILD.toml"], ExitCode.USAGE, "none/BUILD.toml: expected a BUILD.toml of the workspace"),
        (["none"], ExitCode.USAGE, "no file 'none'; expected a BUILD.toml, or a package such as //models"),
        (["MODELBUILD.toml"], ExitCode.USAGE, "MODELBUILD.toml: expected a BUILD.toml of the workspace"),
        (["-//a"], ExitCode.USAGE, "no option '-/'"),
        (["//broken"], ExitCode.LOADING_FAILED, "broken/BUILD.toml:2:1: not valid TOML: "),
    ],
)
def test_an_error_is_one_line(fmt: Fmt, workspace: Workspace, arguments: list[str], code: int, problem: str) -> None:
    workspace.write({"broken/BUILD.toml": "[[x]]\n= 1\n"})
    ended = fmt(*arguments)
    assert ended[:2] == (code, "")
    assert ended[2].startswith(f"error: {problem}")
    assert ended[2].count("\n") == 1


def test_keeps_mode_link_and_line_ends(fmt: Fmt, workspace: Workspace) -> None:
    file = workspace.root / "a/BUILD.toml"
    file.rename(workspace.root / "a/real.toml")
    file.symlink_to("real.toml")
    real = workspace.root / "a/real.toml"
    real.write_bytes(BEFORE.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    assert fmt("//a")[0] == 0
    assert real.read_bytes() == AFTER.replace("\n", "\r\n").encode()
    assert (file.is_symlink(), real.stat().st_mode & 0o777) == (True, 0o640)
    assert sorted(os.listdir(workspace.root / "a")) == ["BUILD.toml", "b", "real.toml"]


def test_attributes_of_every_rule_have_a_place(repository: Path) -> None:
    for rule in load_rules(repository, []).by_name.values():
        order = attribute_order(rule)
        assert len(order) == len(set(order))
        assert set(order) >= set(rule.attrs.model_fields)
    assert attribute_order(load_rules(repository, []).by_name["pte_test"])[:4] == ("name", "matrix", "program", "model")


def test_the_examples_are_formatted(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = invoke(["-C", str(repository / "examples"), "fmt", "--check"])
    assert (code, capsys.readouterr().out) == (0, "")


def test_a_new_workspace_is_formatted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["-C", str(tmp_path), "init"]) == 0
    capsys.readouterr()
    assert (invoke(["-C", str(tmp_path), "fmt", "--check"]), capsys.readouterr().out) == (0, "")


def test_a_matrix_begins_with_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "MODELBUILD.toml").touch()
    (tmp_path / "BUILD.toml").write_text("[[matrix]]\nsize = [ 1,2 ]\nexclude = []\nname = 'm'\nkind = ['a']\n")
    assert invoke(["-C", str(tmp_path), "fmt"]) == 0
    assert (tmp_path / "BUILD.toml").read_text() == (
        '[[matrix]]\nname = "m"\nsize = [1, 2]\nexclude = []\nkind = ["a"]\n'
    )
