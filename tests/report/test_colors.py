"""Colors of results and errors: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import subprocess

import pytest

from modelbuild.report.text import write
from tests.command_runner import MODELBUILD
from tests.workspace_builder import Workspace

RED, GREEN, YELLOW, END = "\x1b[1;31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def written(line: str) -> str:
    stream = Terminal()
    write(stream, line)
    return stream.getvalue().removesuffix("\n")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("//m:t  PASSED  0.1 s", f"//m:t  {GREEN}PASSED{END}  0.1 s"),
        ("//m:t  FAILED  0.1 s: why", f"//m:t  {RED}FAILED{END}  0.1 s: why"),
        ("//m:t  NOT RUN: no GPU", f"//m:t  {YELLOW}NOT RUN{END}: no GPU"),
        ("error: no target", f"{RED}error:{END} no target"),
        ("internal error: bug", f"{RED}internal error:{END} bug"),
        ("first\nerror: second", f"first\n{RED}error:{END} second"),
        ("//m:t", "//m:t"),
        ("  two: FAILED PASSED error: x", "  two: FAILED PASSED error: x"),
    ],
)
def test_results_and_errors_have_colors_on_a_terminal(line: str, shown: str) -> None:
    assert written(line) == shown
    pipe = io.StringIO()
    write(pipe, line)
    assert pipe.getvalue() == f"{line}\n"


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_a_user_disables_colors(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert written("error: x") == "error: x"


@pytest.mark.parametrize("line", [("build", "//:nothing"), ("build", "--nothing"), ("test", "//t:bad_test")])
def test_the_command_line_prints_errors_in_color(workspace: Workspace, line: tuple[str, ...]) -> None:
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": "", "t/BUILD.toml": "[[nothing]]\n"})
    ours, theirs = pty.openpty()
    subprocess.run([*MODELBUILD, *line], cwd=workspace.root, stderr=theirs, env=workspace.environment(), check=False)
    os.close(theirs)
    assert os.read(ours, 1000).decode().startswith(f"{RED}error:{END} ")
    os.close(ours)
    piped = workspace.run(*line)
    assert piped.err.startswith("error: ")
