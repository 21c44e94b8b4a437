"""Tutorials and how-to guides as programs: the files and commands of a page, in its order, and how to run them.

A fenced block is a file if a line with its path in backticks precedes it; "`BUILD.toml`, appended" appends to the file.
A `console` block contains commands, each after a `$`, and lines of their output, which must be printed in this order.
Numbers before units of time differ between machines and match any; `...` matches any text in a line. Other blocks are
not run. A page that links to another one with "Start with the workspace of" begins in a copy of that page's folder.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r"^(?:`(?P<path>[^`\n]+)`(?P<appended>, appended)?\n\n)?```(?P<kind>[\w-]+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
START = re.compile(r"Start with the workspace of\s+\[[^\]]*\]\(([^)#]+)\)")
SECONDS = re.compile(r"\d+(?:[.,]\d+)*(?= (?:s|ms|min)\b)")


@dataclass(frozen=True)
class File:
    path: str
    text: str
    appended: bool


@dataclass(frozen=True)
class Command:
    line: str
    expected: tuple[str, ...]


def parts(text: str) -> Iterator[File | Command]:
    """Yield the files and commands of a page."""
    for block in BLOCK.finditer(text):
        if block["path"] and block["kind"] != "console":
            yield File(block["path"], block["text"], bool(block["appended"]))
        elif block["kind"] == "console":
            for command in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                line, *expected = command.replace("\\\n", "").splitlines()
                yield Command(line, tuple(each for each in expected if each.strip()))


def start_of(page: Path) -> Path | None:
    """Return the page whose folder a page begins with, or None."""
    found = START.search(page.read_text())
    return (page.parent / found[1]).resolve() if found else None


def missing(expected: tuple[str, ...], printed: str) -> str | None:
    """Return the first expected line that was not printed after the lines before it."""
    lines = iter(SECONDS.sub("N", line).rstrip() for line in printed.splitlines())
    for each in expected:
        pattern = ".*".join(map(re.escape, SECONDS.sub("N", each).rstrip().split("...")))
        if not any(re.fullmatch(pattern, line) for line in lines):
            return each
    return None


def follow(page: str, folder: Path, environment: Mapping[str, str]) -> int:
    """Write a page's files to a folder and run its commands there, each in the directory that the last one left.

    Returns the number of commands. Raises AssertionError for a command that fails or prints something else.
    """
    here, done = folder, 0
    for part in parts(page):
        if isinstance(part, File):
            path = here / part.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((path.read_text() + "\n" if part.appended else "") + part.text)
            continue
        script = f"{part.line}\ncode=$?\npwd >&3\nexit $code"
        directory = folder.parent / "working-directory"
        with directory.open("w") as third:
            command = ["bash", "-c", f"exec 3>&{third.fileno()}\n{script}"]
            ended = subprocess.run(
                command,
                cwd=here,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                pass_fds=(third.fileno(),),
                check=False,
            )
        assert ended.returncode == 0, f"$ {part.line}\nexit code {ended.returncode}\n{ended.stdout}"
        lacking = missing(part.expected, ended.stdout)
        assert lacking is None, f"$ {part.line}\n{ended.stdout}\ndid not print: {lacking}"
        here, done = Path(directory.read_text().strip()), done + 1
    return done
