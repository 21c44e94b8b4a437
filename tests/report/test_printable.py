"""What is printed controls no terminal, whoever wrote it."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from modelbuild.report.text import PrintableStream, printable, write
from tests.script_rule import FILES, SCRIPT
from tests.workspace_builder import Workspace

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
ESCAPES = "\x1b]0;title\x07\x1b[2J\x1b[1;31mred\x1b[0m\rspoof\x08\x9b2J\x7f\x00"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[38:5:1mred\x1b[m", "red"),
        ("\x1b]0;t\x07\x1b[2J", "\\x1b]0;t\\x07\\x1b[2J"),
        ("\x1b\x1b[31m[2J", "\\x1b[2J"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("\ud800\u2028é\U0001f600", "\\ud800\\u2028é\U0001f600"),
    ],
)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected
    stream = io.StringIO()
    write(stream, text)
    write(PrintableStream(stream), text)  # type: ignore[arg-type]
    assert stream.getvalue() == f"{expected}\n" * 2


def test_what_a_command_prints_is_escaped() -> None:
    stream = PrintableStream(io.TextIOWrapper(io.BytesIO(), "utf-8"))
    click.echo(ESCAPES, file=stream)  # type: ignore[arg-type]
    print(ESCAPES, file=stream)  # type: ignore[call-overload]
    stream.buffer.write(b"\x1b")
    stream.flush()
    printed = stream.buffer.getvalue()
    assert printed.count(b"\x1b") == 1
    assert printed.count(b"red\\rspoof\\x08") == 2


@pytest.mark.parametrize("encoding", ["ascii:backslashreplace", "utf-8", "latin-1:backslashreplace"])
def test_the_encoding_of_a_stream_does_not_matter(encoding: str) -> None:
    program = (
        "import sys, click\nfrom modelbuild.report.text import PrintableStream\n"
        f"sys.stdout = PrintableStream(sys.stdout)\nclick.echo({ESCAPES + 'é'!r})"
    )
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    printed = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True).stdout
    assert b"spoof" in printed
    assert not re.search(b"[\x00-\x09\x0b-\x1f\x7f\x9b]", printed.replace("é".encode(), b""))


def _hostile(folder: Path) -> Workspace:
    """A workspace whose action prints escapes, and fails with them."""
    workspace = Workspace(folder)
    text = "print({0!r}); import sys; print({0!r}, file=sys.stderr); raise ValueError({0!r})\n"
    workspace.write({**FILES, "a/s.py": text.format(ESCAPES)})
    test = f"def test_x():\n    print({ESCAPES!r})\n    assert 0, {ESCAPES!r}\n"
    workspace.add("a/BUILD.toml", '[[py_test]]\nname = "t"\nsrcs = ["test_t.py"]\n')
    workspace.write({"a/test_t.py": test})
    return workspace


def test_output_and_errors_of_actions_and_tests_are_escaped(tmp_path: Path) -> None:
    workspace = _hostile(tmp_path)
    for command, code in ((("build", SCRIPT), 1), (("test", "//a:t"), 4), (("explain", SCRIPT), 0)):
        ended = workspace.run(*command)
        assert ended.code == code, ended.err
        assert not CONTROL.search(ended.out + ended.err)
    assert "\\x1b]0;title\\x07\\x1b[2Jred\\rspoof" in workspace.run("build", SCRIPT).err


def test_a_terminal_gets_only_what_modelbuild_draws(tmp_path: Path) -> None:
    workspace = _hostile(tmp_path)
    leader, follower = pty.openpty()
    environment = {**os.environ, "MODELBUILD_CACHE_DIR": str(tmp_path / "cache"), "TERM": "xterm"}
    command = [sys.executable, "-m", "modelbuild", "-C", str(workspace.root), "build", SCRIPT]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment) as started:
        os.close(follower)
        printed = b""
        try:
            while chunk := os.read(leader, 1 << 16):
                printed += chunk
        except OSError:  # the end of a terminal
            pass
    os.close(leader)
    assert started.returncode == 1
    text = printed.decode()
    assert "spoof" in text
    assert "\x1b]0" not in text
    assert "\rspoof" not in text
    assert "\x1b[2J" not in text
    assert not re.search("[\x07\x08\x7f\x9b\0]", text)
