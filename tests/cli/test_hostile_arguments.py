"""Arbitrary arguments: a command ends with a documented exit code, and with one line on stderr for an error."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import strategies as st

from modelbuild.cli import invoke
from modelbuild.cli.group import cli
from modelbuild.cli.names import COMMANDS
from modelbuild.errors import ExitCode
from tests.hostile import NASTY, cases, run_property
from tests.workspace_builder import write

BUILD = """
[[filegroup]]
name = "group"
srcs = ["a.txt"]

[[device_target]]
name = "cpu"
arch = "x86_64"

[[test_suite]]
name = "suite"
tests = [":group"]
"""

# They read requests until their input ends, or wait for changes until an interrupt.
SERVERS = {"lsp"}
ENDLESS = {"watch"}

# By the name of an argument or option in the help.
LIKELY = {
    "TARGET": ("//:group", ":group", "//...", "//:cpu", "//:suite"),
    "LABEL": ("//:cpu", "//:group", "cpu"),
    "EXPRESSION": ("//...", "deps(//:group)", "kind(rule, //:all)"),
    "PROGRAM": ("x.pte", "//:group", "a.txt"),
    "REF": ("HEAD",),
    "EXPR": ("a", "a::b", "a and"),
    "FILE": ("out.json", "list.json", "bytes.bin", "folder", "none/x", "folder/y", "/dev/full", "/dev/null"),
    "RULE": ("filegroup", "torch_model", "build", "filegroops"),
    "REGEX": (".*", "filegroup", "(", "[[a]", "a{99999999999}"),
    "SIZE": ("1GiB", "0"),
    "NAME=FILE": ("x=a.txt", "y=//:group"),
    "ACTION=PLACES": ("a=local",),
    "ADDRESS": ("", "file:///dev/null/x"),
    "NAME": ("ci",),
    "TAG": ("a,-b",),
    "DIR": ("folder",),
}
# Arguments that a shell can pass: also bytes that are not UTF-8, but no NUL.
VALUES = st.sampled_from((*(text for text in NASTY if "\0" not in text), "\udcff", "a\udcfe=\udc80"))


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """Generate a command, mostly with valid arguments."""
    name = draw(st.sampled_from(sorted({*COMMANDS} - SERVERS)))
    command = cli.get_command(click.Context(cli), name)
    line = [draw(st.sampled_from(("-C", "--workspace"))), draw(VALUES)] if _seldom(draw) else []
    line += [draw(VALUES)] if _seldom(draw) else []
    line.append(name)
    if isinstance(command, click.Group):
        line.append(draw(st.sampled_from(sorted(command.commands))))
        command = command.commands[line[-1]]
    assert command is not None
    parts = [[draw(VALUES)]] if _seldom(draw) else []
    options = [each for each in command.params if isinstance(each, click.Option) and each.name not in ENDLESS]
    chosen = [draw(st.sampled_from(options)) for _ in range(draw(st.integers(0, 3)) if options else 0)]
    for each in (*command.params, *chosen):
        if isinstance(each, click.Argument) or each.required or each in chosen:
            parts += [] if _seldom(draw) else [_written(draw, each)]
    return line + [word for part in draw(st.permutations(parts)) for word in part]


def _written(draw: st.DrawFn, parameter: click.Parameter) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [_value(draw, parameter) for _ in range(draw(st.integers(1, 2)) if parameter.nargs < 0 else 1)]
    name = draw(st.sampled_from((*parameter.opts, *parameter.secondary_opts)))
    if getattr(parameter, "is_flag", False):
        return [f"{name}={draw(VALUES)}"] if _seldom(draw) else [name]
    return [name] if _seldom(draw) else [name, _value(draw, parameter)]


def _value(draw: st.DrawFn, parameter: click.Parameter) -> str:
    if draw(st.integers(0, 9)) < 4:
        return draw(VALUES)
    if isinstance(parameter.type, click.Choice):
        return str(draw(st.sampled_from(list(parameter.type.choices))))
    if isinstance(parameter.type, click.IntRange):
        return draw(st.sampled_from(("1", "2", "-5", "9" * 30)))
    called = (parameter.metavar or parameter.name or "").strip("[].").upper()
    likely = next((known for known in LIKELY if called.startswith(known)), None)
    return draw(VALUES if likely is None else st.sampled_from(LIKELY[likely]))


def _seldom(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 19)) == 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "workspace"
    (root / "folder").mkdir(parents=True)
    for name, content in {
        **{"MODELBUILD.toml": b"[profile.ci]\nquiet = true\n", "BUILD.toml": BUILD.encode(), "a.txt": b"x"},
        **{"x.pte": bytes(64), "list.json": b"[]", "bytes.bin": b"\xff\xfe\0"},
    }.items():
        (root / name).write_bytes(content)
    git = ("git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
        subprocess.run([*git, *arguments], check=True)
    monkeypatch.setenv("MODELBUILD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(root)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return root


def ended(arguments: Sequence[str]) -> tuple[int, str]:
    """Return the exit code and stderr of a command line run in this process."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    with redirect_stdout(out), redirect_stderr(err):
        code = invoke(arguments)
    return code, "" if err.closed else err.buffer.getvalue().decode()  # type: ignore[attr-defined]


def check_ending(code: int, err: str) -> None:
    """Check for a documented code, no traceback, and one line for an error."""
    assert code in set(ExitCode) - {ExitCode.INTERNAL}, err
    assert "Traceback" not in err
    if code in (ExitCode.USAGE, ExitCode.LOADING_FAILED, ExitCode.ENVIRONMENT):
        # A command that builds a program first prints that build's results.
        others = ("note: ", "modelbuild: warning: ", "::", "//", "  ", "Built ", "Nothing to do")
        error, end = [line for line in err.split("\n") if not line.startswith(others)]
        assert error.startswith("error: ")
        assert end == ""


@cases(80, 5_000)
def test_any_command_line_ends_with_a_documented_code(folder: Path, examples: int) -> None:
    def holds(arguments: list[str]) -> None:
        os.chdir(folder)
        check_ending(*ended(arguments))

    run_property(examples, command_lines(), holds)


@pytest.mark.parametrize(
    ("shell", "words", "position"),
    [
        ("bash_complete", "modelbuild build //", "x"),
        ("bash_complete", "", "0"),
        ("bash_complete", "modelbuild", "9" * 5000),
        ("zsh_complete", "modelbuild 'build", "-1"),
        ("zsh_complete", "modelbuild build -", ""),
        ("fish_complete", "\udcff", "\udcff"),
        ("none_complete", "modelbuild", "1"),
        ("\udcff", "", ""),
    ],
)
def test_questions_of_no_shell_have_no_answer(workspace: Any, shell: str, words: str, position: str) -> None:
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": BUILD})
    given = {"_MODELBUILD_COMPLETE": shell, "COMP_WORDS": words, "COMP_CWORD": position}
    done = workspace.run(**given)
    assert done.code in (0, 1, 2)
    assert "Traceback" not in done.err
    assert "internal error" not in done.err


def test_names_that_no_shell_can_complete_are_left_out(workspace: Any) -> None:
    workspace.write({"MODELBUILD.toml": "", "a/BUILD.toml": BUILD + '[[filegroup]]\nname = "a\tb"\n'})
    folder = Path(os.fsdecode(os.fsencode(workspace.root) + b"/\xff"))
    folder.mkdir()
    (folder / "BUILD.toml").touch()

    def completed(word: str) -> str:
        given = {"COMP_WORDS": f"modelbuild build {word}", "COMP_CWORD": "2"}
        done = workspace.run(_MODELBUILD_COMPLETE="zsh_complete", **given)
        assert (done.code, done.err) == (0, "")
        return str(done.out)

    assert completed("//") == "plain\n//a\n_\n"
    assert completed("//a:").split()[1::3] == ["//a:group", "//a:cpu", "//a:suite"]


def test_a_folder_that_is_gone(workspace: Any, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = Path(sys.executable).with_name("modelbuild")
    done = workspace.run(program=("sh", "-c", f"cd {gone} && rmdir {gone} && exec {program} build //..."))
    assert (done.code, done.err) == (2, "error: the folder '.' no longer exists\n")


RULE = """
from modelbuild.api import Attrs, Files, Output, Sources, rule

class CopyAttrs(Attrs):
    srcs: Sources

@rule(attrs=CopyAttrs)
def copy(ctx):
    inputs = {"srcs": ctx.files(ctx.attrs.srcs)}
    made = ctx.action("copy", step="copy", inputs=inputs, outputs=[Output("file", "b.txt")])
    return (Files((made["file"],)),)
"""
STEP = "def run(step):\n    step.outputs['file'].write_text(step.input('srcs').read_text())\n"


def test_a_workspace_may_lie_anywhere(workspace: Any, tmp_path: Path) -> None:
    name = b"\xff\n\x1b[31m a'\"$(x)%41?#" + "\u2028é".encode()
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    files = {
        **{"MODELBUILD.toml": "rules = ['//r']", "BUILD.toml": f"{BUILD}[[copy]]\nname = 'copy'\nsrcs = ['a.txt']\n"},
        **{"a.txt": "x", "r/__init__.py": "", "r/copy.py": RULE, "r/steps/__init__.py": "", "r/steps/copy.py": STEP},
    }
    write(root, files)
    git = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x"), ("remote", "add", "origin", root)):
        subprocess.run([*git, *arguments], check=True)
    for line, expected in {
        ("build", "//..."): "Built 4 targets",
        ("build", "//:copy", "--json"): '"ok": true',
        ("info",): "workspace",
        ("affected", "--since", "HEAD"): "",
        ("explain", "//:copy"): "//:copy#copy",
        ("history", "//:copy", "--json"): "seconds",
        ("clean",): "",
    }.items():
        done = workspace.run(*line, cwd=root)
        assert (done.code, done.err if line[0] != "build" else "") == (0, "")
        assert expected in done.out
    assert not (root / "modelbuild-out").exists()
