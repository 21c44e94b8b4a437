"""The place of a cursor in a BUILD file, which need not be valid TOML: users type in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from modelbuild.workspace.toml_positions import KeyPath

Kind: TypeAlias = Literal["header", "key", "value", "other"]

# A header on a line of its own, as BUILD files have them. A line of an array, such as `["a"]`, is none.
HEADER = re.compile(r"^[ \t]*(?:\[\[[ \t]*([\w.-]+)[ \t]*\]\]|\[[ \t]*([\w.-]+)[ \t]*\])[ \t]*(?:#.*)?$", re.MULTILINE)
_OPEN_HEADER = re.compile(r"[ \t]*\[{1,2}[ \t]*([\w.-]*)\Z")
_NAME = re.compile(r"[\w.-]+")
_WORD = re.compile(r"[\w.+:/@-]+")
_KEY = re.compile(r"[\w-]+")
# At the start of a line in an array it means that the bracket before is not closed yet: its tables are in braces.
_PAIR = re.compile(r"[ \t]*[\w-]+[ \t]*=(?!=)")
_STRING = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"?|\'[^\'\n]*\'?', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of a cursor.

    kind    a rule's name in a header, an attribute's name, a value, or anything else
    table   the rule of the table around it, `package`, or ''
    header  the offset of the table's header; -1 without
    path    the keys and indices of the key or value in the table
    text    the whole word or string there, without quotes; `before` is its part before the cursor
    start   the offset of the word or of the string's text, and `end` the one after it
    quoted  whether it is a string
    keys    the keys that the innermost table has before the cursor
    """

    kind: Kind
    table: str = ""
    header: int = -1
    path: KeyPath = ()
    text: str = ""
    before: str = ""
    start: int = 0
    end: int = 0
    quoted: bool = False
    keys: tuple[str, ...] = ()


@dataclass(slots=True)
class _Frame:
    """An array or table that is open at the cursor: its next index, or its current key and those before."""

    brackets: Literal["[", "{"]
    key: str = ""
    index: int = 0
    keys: tuple[str, ...] = ()

    def step(self) -> str | int:
        return self.index if self.brackets == "[" else self.key


def cursor_at(text: str, offset: int) -> Cursor:
    """Return the place of an offset of a BUILD file."""
    line = text.rfind("\n", 0, offset) + 1
    opened = _OPEN_HEADER.match(text[line:offset])
    if opened is not None and not _inside_array(text, line):
        start = line + opened.start(1)
        end = _end(_NAME, text, start)
        return Cursor("header", header=line, text=text[start:end], before=opened[1], start=start, end=end)
    header = None
    for header in HEADER.finditer(text, 0, line):  # noqa: B007  the last one before the line
        pass
    if header is None:
        return Cursor("other", start=offset, end=offset)
    table = header[1] or header[2]
    return _Scanner(text, offset, table, header.start()).scan(header.end())


def _inside_array(text: str, line: int) -> bool:
    """Return whether a line begins inside an array: after an item or an opening bracket."""
    before = text[:line].rstrip()
    return before.endswith((",", "[", "{", "="))


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match is not None else start


class _Scanner:
    def __init__(self, text: str, offset: int, table: str, header: int) -> None:
        self.text = text
        self.offset = offset
        self.table = table
        self.header = header
        self.frames = [_Frame("{")]
        self.value = False  # a value is expected, not a key

    def scan(self, at: int) -> Cursor:
        """Walk from the header's end to the cursor."""
        while at < self.offset:
            char = self.text[at]
            frame = self.frames[-1]
            if char == "#":
                end = self.text.find("\n", at)
                if end < 0 or end >= self.offset:
                    return Cursor("other", self.table, self.header, start=self.offset, end=self.offset)
                at = end
            elif char in "\"'":
                end = _end(_STRING, self.text, at)
                if end > self.offset or (end == self.offset and self._is_open(at, end)):
                    return self._string(at, end)
                self._word(self.text[at + 1 : end - 1])
                at = end
            elif _WORD.match(char):
                end = _end(_WORD if self.value else _KEY, self.text, at)
                if end == at:
                    at += 1
                    continue
                if end >= self.offset:
                    return self._found(at, end, quoted=False)
                self._word(self.text[at:end])
                at = end
            else:
                self._punctuation(char, frame, at)
                at += 1
        return self._found(self.offset, self.offset, quoted=False)

    def _is_open(self, start: int, end: int) -> bool:
        """Return whether a string that ends at the cursor is not closed."""
        return end - start < 2 or self.text[end - 1] != self.text[start]

    def _word(self, text: str) -> None:
        if not self.value:
            self.frames[-1].key = text

    def _punctuation(self, char: str, frame: _Frame, at: int) -> None:
        match char:
            case "=":
                self.value = True
                frame.keys = (*frame.keys, frame.key)
            case "[" | "{":
                self.frames.append(_Frame("[" if char == "[" else "{"))
                self.value = char == "["
            case "]" | "}" if len(self.frames) > 1:
                self.frames.pop()
                self.value = True
            case ",":
                frame.index += 1
                self.value = frame.brackets == "["
                frame.key = ""
            case "\n" if len(self.frames) == 1 or _PAIR.match(self.text, at + 1):
                # Also where a bracket is not closed yet: the next line is a pair of the table.
                if len(self.frames) == 1 or self.frames[-1].brackets == "[":
                    del self.frames[1:]
                    self.value = False
                    self.frames[0].key = ""

    def _string(self, start: int, end: int) -> Cursor:
        closed = not self._is_open(start, end) if end <= self.offset else self.text[end - 1] == self.text[start]
        return self._found(start + 1, end - 1 if closed and end - start > 1 else end, quoted=True)

    def _found(self, start: int, end: int, quoted: bool) -> Cursor:
        text = self.text[start:end]
        path = tuple(frame.step() for frame in self.frames)
        if not self.value:
            path = (*path[:-1], text)
        before = text[: self.offset - start]
        kind: Kind = "value" if self.value else "key"
        keys = self.frames[-1].keys
        return Cursor(kind, self.table, self.header, path, text, before, start, end, quoted, keys)
