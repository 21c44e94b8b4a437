"""Commands with standard streams that are closed, full or read by nobody, and with a umask that takes every right."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.command_runner import MODELBUILD
from tests.powerless import AS_USER
from tests.script_rule import FILES, OUTPUT, SCRIPT
from tests.workspace_builder import Workspace

FAILS = "a/fails.py"


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    workspace.write({**FILES, "a/s.py": "result = 1\n"})
    return workspace


def shell(workspace: Workspace, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `modelbuild` is the command."""
    command = shlex.join(MODELBUILD)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("modelbuild", command)],
        cwd=workspace.root,
        env=workspace.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.sampled
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_like_dev_null(workspace: Workspace, closed: str) -> None:
    assert shell(workspace, f"modelbuild build {SCRIPT} {closed}").returncode == 0
    assert (workspace.root / OUTPUT).read_text() == "1"
    for command, code in (("query //...", 0), (f"build {SCRIPT}", 0), ("--version", 0), ("build //:none", 2)):
        ended = shell(workspace, f"modelbuild {command} {closed}")
        assert ended.returncode == code, ended.stderr
        assert len(ended.stderr.splitlines()) <= (code > 0)


@pytest.mark.sampled
@pytest.mark.parametrize("command", [f"build {SCRIPT}", f"build {SCRIPT} --json", "query //...", "--help", "info"])
def test_output_that_cannot_be_written_is_one_line(workspace: Workspace, command: str) -> None:
    for _ in range(2):  # the second build has nothing to do
        ended = shell(workspace, f"modelbuild {command} >/dev/full")
        assert ended.returncode == 36
        assert ended.stderr.splitlines()[-1] == "error: standard output: No space left on device"
        assert "Traceback" not in ended.stderr
    ended = shell(workspace, f"modelbuild {command} >/dev/null 2>/dev/full")
    assert ended.returncode == 0
    assert shell(workspace, "modelbuild build //:none >/dev/full").returncode == 2


def test_a_reader_that_ends_early_changes_no_exit_code(workspace: Workspace) -> None:
    many = "".join(f'[[filegroup]]\nname = "{"g" * 100}{n}"\nsrcs = []\n' for n in range(3000))
    workspace.write({"many/BUILD.toml": many})
    ended = shell(workspace, "modelbuild query //many/... | head -1")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(ended.stdout.splitlines()) == 1
    workspace.write({"a/s.py": "raise ValueError\n"})
    ended = shell(workspace, f"modelbuild build {SCRIPT} --json | true")
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr.replace("Traceback (most recent call last)", "", 1)


def test_what_a_build_makes_can_be_read_under_any_umask(workspace: Workspace, tmp_path: Path) -> None:
    for mask in ("777", "177", "077", "0"):
        workspace.write({"a/s.py": f"result = '{mask}'\n"})
        ended = shell(workspace, f"umask {mask}; {shlex.join(AS_USER)} modelbuild build {SCRIPT}")
        assert ended.returncode == 0, ended.stderr
        assert (workspace.root / OUTPUT).read_text() == mask
