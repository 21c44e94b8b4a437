"""Builds shown on a real terminal (a pty)."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping

PROGRAM = """
import sys, threading, time
from modelbuild.report import make_reporter
from modelbuild.events import *
from pathlib import Path
reporter = make_reporter()
L = "//models:detector"
reporter.emit(BuildStarted((L,), 2, 2))
reporter.emit(ActionFinished("a", L, "export", "export", "cached"))
for i in range(4):
    reporter.emit(ActionStarted(f"c{i}", L, "compile", f"p{i} (xnnpack)"))
reporter.emit(ActionProgress("c3", "kernel 4 of 17"))
reporter.emit(GraphGrew(6))
reporter.emit(Notice("something \\u201codd\\u201d"))
time.sleep(0.4)
for i in range(3):
    reporter.emit(ActionFinished(f"c{i}", L, "compile", f"p{i} (xnnpack)", "ran", 0.4))
if "raise" in sys.argv:
    try:
        raise SystemExit(3)
    finally:
        reporter.close()
red = "\\x1b[31mred\\x1b[0m"
reporter.emit(ActionFinished("c3", L, "compile", "p3 (xnnpack)", "failed", 0.4, problem="no kernel", stderr=red))
time.sleep(0.3)
reporter.emit(TargetFailed(L, "default", f"compile {L} p3 (xnnpack)"))
if "uploads" in sys.argv:
    reporter.emit(UploadsAwaited(2, 3 << 29))
    time.sleep(0.3)
reporter.emit(BuildFinished(0.8))
reporter.close()
"""

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


def on_terminal(*arguments: str, columns: int = 100, rows: int = 24, env: Mapping[str, str] | None = None) -> str:
    """Everything that PROGRAM writes to a terminal of that size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    variables = {"TERM": "xterm-256color", "PYTHONPATH": ":".join(sys.path), "LC_ALL": "C.UTF-8", **(env or {})}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=variables
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    process.wait()
    return b"".join(parts).decode()


def frames(text: str) -> list[str]:
    """Lines as drawn, without colours, in the order in which they were written."""
    return [line for line in CONTROL.sub("", text).replace("\r", "\n").split("\n") if line.strip()]


def test_live_picture_then_what_stays() -> None:
    text = on_terminal()
    lines = frames(text)
    assert any(re.fullmatch(r"━.*  1/6  0 ran, 1 cached  \d+\.\d+ s *", line) for line in lines)
    assert any(re.fullmatch(r"  compile //models:detector p2 \(xnnpack\) +\d+\.\d+ s *", line) for line in lines)
    part = r"  compile //models:detector p3 \(xnnpack\)  kernel 4 of 17  \d+\.\d+ s *"
    assert any(re.fullmatch(part, line) for line in lines)
    assert any("5/6  3 ran, 1 cached, 1 failed" in line for line in lines)
    assert "note: something “odd”" in lines
    assert "error: compile //models:detector p3 (xnnpack): no kernel" in lines
    assert lines[-2:] == [
        "//models:detector was not built: compile //models:detector p3 (xnnpack) failed",
        "Failed in 0.8 s: 0 targets built, 1 not: 6 actions, 3 ran, 1 cached, 1 failed, 1 not run",
    ]
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


def test_the_cursor_is_back_when_the_build_ends_by_an_exception() -> None:
    text = on_terminal("raise")
    assert HIDE_CURSOR in text
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


def test_a_wait_for_uploads_is_part_of_the_picture() -> None:
    said = "  waiting for 2 uploads to the remote cache, 1.5 GiB left (Ctrl-C to stop waiting)"
    assert said in [line.rstrip() for line in frames(on_terminal("uploads"))]


def test_narrow_terminal_keeps_times_and_every_picture_line_within_it() -> None:
    lines = frames(on_terminal(columns=34, rows=5))
    running = [line.rstrip() for line in lines if line.startswith("  compile")]
    assert running
    assert all(len(line) <= 34 and re.search(r"…  \d+\.\d+ s$", line) for line in running)
    assert any(line.rstrip() == "  and 2 more" for line in lines)


def test_no_color() -> None:
    assert re.search(r"\x1b\[(3[1-7]|9[0-7]|38)", on_terminal())
    text = on_terminal(env={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*(3[1-7]|9[0-7]|38)", text)
    assert "1/6" in text


def test_a_terminal_without_utf8_gets_ascii() -> None:
    text = on_terminal(env={"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert text.isascii()
    assert "note: something \\u201codd\\u201d" in text
    assert re.search(r"-+ -+ .*1/6  0 ran, 1 cached", CONTROL.sub("", text))


def test_dumb_terminal_gets_plain_lines() -> None:
    text = on_terminal(env={"TERM": "dumb"})
    assert "\x1b[?" not in text
    assert "[2/6] compile //models:detector p0 (xnnpack)  0.4 s" in text.replace("\r", "").splitlines()
