"""`--watch` runs a command again after each change in the workspace, and after none of its own outputs."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.command_runner import MODELBUILD, Running
from tests.script_rule import FILES, OUTPUT, SCRIPT, WAITS
from tests.stages import wait_for
from tests.workspace_builder import Workspace

CODE = "a/s.py"


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    workspace.write({**FILES, CODE: "result = 1\n", "notes.md": ""})
    return workspace


@contextmanager
def watched(workspace: Workspace, *arguments: str) -> Iterator[Running]:
    """Start a command with --watch, and interrupt it in the end."""
    command = workspace.start(*arguments, "--watch")
    try:
        yield command
    finally:
        command.send(signal.SIGINT)
        command.wait()


def expect(command: Running, *ends: str) -> None:
    """Wait for as many runs as are given; each prints one of these words at the start of its last line."""
    words = ("Built", "Nothing to do", "Failed", "error")

    def found() -> list[str]:
        lines = (command.err + command.out).splitlines()
        return [word for line in lines for word in words if line.startswith(word)]

    wait_for(lambda: command.over or len(found()) >= len(ends))
    assert sorted(found()) == sorted(ends), command.err


def test_each_change_is_built_and_one_that_affects_nothing_is_named(workspace: Workspace) -> None:
    with watched(workspace, "build", SCRIPT) as command:
        expect(command, "Built")
        assert (workspace.root / OUTPUT).read_text() == "1"
        workspace.write({CODE: "result = 2\n"})
        expect(command, "Built", "Built")
        assert (workspace.root / OUTPUT).read_text() == "2"
        workspace.write({"notes.md": "x"})
        expect(command, "Built", "Built", "Nothing to do")
        workspace.write({"a/BUILD.toml": "["})
        expect(command, "Built", "Built", "Nothing to do", "error")
    assert [line for line in command.err.splitlines() if line.startswith("changed: ")] == [
        f"changed: {CODE}",
        "changed: notes.md",
        "changed: a/BUILD.toml",
    ]
    assert command.wait().code == 8


def test_a_change_during_a_build_is_built_after_it(workspace: Workspace) -> None:
    workspace.write({CODE: f"{WAITS}\nresult = 1\n"})
    with watched(workspace, "build", SCRIPT) as command:
        workspace.wait_for_an_action(command)
        workspace.write({CODE: "result = 2\n"})
        for home in (workspace.cache / "tmp").glob("build-*/*/.home"):
            (home / "go").touch()
        output = workspace.root / OUTPUT
        wait_for(lambda: command.over or (output.exists() and output.read_text() == "2"))
        assert not command.over
        assert f"changed: {CODE}" in command.err


def test_files_that_the_command_writes_start_no_run(workspace: Workspace) -> None:
    with watched(workspace, "build", SCRIPT, "--junit", "junit.xml") as command:
        expect(command, "Built")
        time.sleep(1)
        expect(command, "Built")
    assert (workspace.root / "junit.xml").exists()
    assert "changed" not in command.err


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_run(workspace: Workspace, kind: signal.Signals) -> None:
    workspace.write({CODE: f"{WAITS}\nresult = 1\n"})
    command = workspace.start("build", SCRIPT, "--watch")
    workspace.wait_for_an_action(command)
    command.send(kind)
    ended = command.wait()
    assert ended.code == 8
    assert "Interrupted" in ended.err + ended.out


def test_without_watchfiles_it_names_the_extra(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none/watchfiles.py").write_text("raise ImportError\n")
    ended = workspace.run("build", SCRIPT, "--watch", PYTHONPATH=str(tmp_path / "none"))
    assert ended.code == 2
    assert ended.errors == ["error: --watch needs watchfiles; expected: pip install 'modelbuild[watch]'"]


@pytest.mark.parametrize("limit", ["max_inotify_instances", "max_inotify_watches"])
def test_a_kernel_that_watches_no_more_is_one_line(workspace: Workspace, limit: str) -> None:
    inside = ("unshare", "-Ur", "sh", "-c", f'echo 0 >/proc/sys/user/{limit} && exec "$@"', "sh")
    ended = workspace.start("build", SCRIPT, "--watch", program=(*inside, *MODELBUILD)).wait()
    assert ended.code == 2
    assert [line.partition(";")[2] for line in ended.errors] == [
        " set WATCHFILES_FORCE_POLLING=1 to poll all files instead"
    ]
