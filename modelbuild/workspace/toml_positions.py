"""Positions of keys and array elements in a TOML document; tomli returns values without positions.

Follows the grammar of TOML 1.1 (newlines and comments inside inline tables). Checks nothing, because tomli has accepted
the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import TypeAlias

import tomli

# The keys and indices of a value in a document, such as ("torch_model", 0, "inputs", 1, "shape").
KeyPath: TypeAlias = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
SPACE = re.compile(r"[ \t]*")
STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)
KEY = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+')
BARE_VALUE = re.compile(r"[^,\]}\n#]*")


def positions(text: str) -> dict[KeyPath, tuple[int, int]]:
    """Return line and column, from 1, of every path of the document `text`.

    A key's position is its first occurrence; an array element's is the start of its value, or the `[[` of its header.
    The document itself, path (), is at 1:1.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(offset: int) -> tuple[int, int]:
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    return {path: place(offset) for path, offset in _Scanner(text).scan().items()}


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[KeyPath, int] = {(): 0}
        # Number of elements so far of each array of tables.
        self.counts: dict[KeyPath, int] = {}

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self.skip(_BLANK) < len(self.text):
            if self.text.startswith("[", self.at):
                table = self.header()
            else:
                self.pair(table)
        return self.found

    def skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return self.at

    def note(self, path: KeyPath, offset: int) -> None:
        self.found.setdefault(path, offset)

    def keys(self) -> Iterator[tuple[str, int]]:
        """Yield the parts of a dotted key, each with its offset."""
        while True:
            start = self.skip(SPACE)
            raw = self.text[start : self.skip(KEY)]
            yield (tomli.loads(f"key = {raw}")["key"] if raw[0] in "\"'" else raw), start
            self.skip(SPACE)
            if not self.text.startswith(".", self.at):
                return
            self.at += 1

    def header(self) -> KeyPath:
        start = self.at
        brackets = 2 if self.text.startswith("[[", start) else 1
        self.at += brackets
        path: KeyPath = ()
        for key, offset in self.keys():
            if path in self.counts:
                path = (*path, self.counts[path] - 1)
            path = (*path, key)
            self.note(path, offset)
        self.at += brackets
        if brackets == 2:
            index = self.counts.get(path, 0)
            self.counts[path] = index + 1
            path = (*path, index)
            self.note(path, start)
        return path

    def pair(self, table: KeyPath) -> None:
        self.value(self.dotted(table))

    def dotted(self, table: KeyPath) -> KeyPath:
        """Return the path of a key in a table, and skip the equals sign after it."""
        path = table
        for key, offset in self.keys():
            path = (*path, key)
            self.note(path, offset)
        self.at += 1
        return path

    def value(self, path: KeyPath) -> None:
        """Skip a value and note the positions in it. Uses its own stack: nesting may exceed Python's recursion
        limit."""
        inside = [self.parts(path)]
        while inside:
            part = next(inside[-1], None)
            if part is None:
                inside.pop()
            else:
                inside.append(self.parts(part))

    def parts(self, path: KeyPath) -> Iterator[KeyPath]:
        """Skip a value; yield the path of each value in it, positioned at that value."""
        self.skip(SPACE)
        opening = self.text[self.at]
        if opening in "\"'":
            self.skip(STRING)
        elif opening == "[":
            for index, _ in enumerate(self.items("]")):
                self.note((*path, index), self.at)
                yield (*path, index)
        elif opening == "{":
            for _ in self.items("}"):
                yield self.dotted(path)
        else:
            self.skip(BARE_VALUE)

    def items(self, closing: str) -> Iterator[None]:
        """Stop at each item of an array or inline table, and finally after its closing bracket."""
        self.at += 1
        while True:
            self.skip(_BLANK)
            if self.text.startswith(closing, self.at):
                self.at += 1
                return
            yield
            self.skip(_BLANK)
            if self.text.startswith(",", self.at):
                self.at += 1
