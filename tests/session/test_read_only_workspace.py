"""A workspace on a read-only disk: a build with nothing to do succeeds, any other is an error of one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.command_runner import MODELBUILD, Ended
from tests.session.checked_workspace import CheckedWorkspace

FILES = {"a/BUILD.toml": '[[filegroup]]\nname = "f"\nsrcs = ["x"]\n', "a/x": "x"}


@pytest.fixture
def read_only(make_workspace: Callable[..., CheckedWorkspace]) -> Callable[..., Ended]:
    """read_only(*arguments) runs the command line; disk=False on a disk that can be written to."""
    if shutil.which("bwrap") is None:
        pytest.skip("not run: needs bubblewrap, which makes a disk read-only")
    workspace = make_workspace(FILES)
    workspace.settle()

    def run(*arguments: str, disk: bool = True) -> Ended:
        root = str(workspace.root)
        bind = ("--ro-bind" if disk else "--bind", root, root)
        within = ("bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", *bind)
        return workspace.run(*arguments, program=(*within, *MODELBUILD))

    run.root = workspace.root  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize("changed", [False, True], ids=["as it was", "and a listed folder looked into"])
def test_nothing_to_do(read_only: Any, changed: bool) -> None:
    for _ in range(3):
        assert read_only("build", "//...", disk=False).code == 0
    if changed:
        (read_only.root / "a/unused").write_text("")
        (read_only.root / "a/unused").unlink()
    for options in ((), ("--quiet",), ("--jobs=2",)):  # the last two have no saved command line
        ended = read_only("build", "//...", *options)
        assert (ended.code, ended.err) == (0, "")
        assert options == ("--quiet",) or "Nothing to do" in ended.out


def test_something_to_do_is_an_error_before_anything_is_done(read_only: Any) -> None:
    first = read_only("build", "//...")
    out = read_only.root / "modelbuild-out"
    assert (first.code, first.out) == (36, "")
    assert first.err == f"error: {out}: Read-only file system\n"
    assert read_only("build", "//...", disk=False).code == 0
    (read_only.root / "a/x").write_text("changed")
    ended = read_only("build", "//...")
    assert (ended.code, ended.out) == (36, "")
    assert ended.err == f"error: {out}: read-only; expected a writable folder for outputs\n"


def test_outputs_may_lie_elsewhere(read_only: Any, tmp_path: Any) -> None:
    (tmp_path / "elsewhere").mkdir()
    (read_only.root / "modelbuild-out").symlink_to(tmp_path / "elsewhere")
    for word in ("Built 1 target", "Nothing to do"):
        ended = read_only("build", "//...")
        assert (ended.code, ended.err) == (0, "")
        assert word in ended.out
    assert (tmp_path / "elsewhere/default/a/f/x").read_text() == "x"


@pytest.mark.parametrize("command", [["clean"], ["test", "//..."], ["query", "//..."], ["info"]])
def test_no_other_command_ends_in_a_traceback(read_only: Any, command: list[str]) -> None:
    read_only("build", "//...", disk=False)
    ended = read_only(*command)
    assert ended.code in (0, 2, 36)
    assert len(ended.err.splitlines()) == (ended.code != 0)
