"""The statements of a TOML document as they are written: headers, pairs, comments and blank lines.

tomlkit does not serve here: it moves arrays of tables that other tables interrupt, as those of BUILD files are. Checks
nothing, because tomli has accepted the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from modelbuild.workspace.toml_positions import BARE_VALUE, KEY, SPACE, STRING

# Lines before a statement or an item: comments, and '' for one blank line or more.
Lines: TypeAlias = list[str]


@dataclass(slots=True)
class Entry:
    """`key = value  # comment` of a section or an inline table, or an item of an array, whose `key` is '', with the
    lines before it."""

    before: Lines
    key: str
    value: Value
    comment: str = ""


@dataclass(slots=True)
class Items:
    """An array or inline table. `lines`: its items are on lines of their own; `end`: lines before its end."""

    brackets: str
    items: list[Entry] = field(default_factory=list)
    lines: bool = False
    end: Lines = field(default_factory=list)


# A scalar is its text.
Value: TypeAlias = str | Items


@dataclass(slots=True)
class Section:
    """A header (`[[torch_model]]`; '' for what is before the first), its entries, and the lines before the header."""

    before: Lines
    header: str = ""
    comment: str = ""
    pairs: list[Entry] = field(default_factory=list)


def read_statements(text: str) -> tuple[list[Section], Lines]:
    """Return the sections of a document with line ends `\\n`, and the lines at its end."""
    reader = _Reader(text)
    sections = [Section([])]
    while True:
        before = reader.lines()
        if reader.at >= len(text):
            return sections, before
        if reader.sees("["):
            header = reader.header()
            sections.append(Section(before, header, reader.rest_of_line()))
        else:
            key = reader.key()
            value = reader.value()
            sections[-1].pairs.append(Entry(before, key, value, reader.rest_of_line()))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def sees(self, start: str) -> bool:
        return self.text.startswith(start, self.at)

    def space(self) -> None:
        match = SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def lines(self) -> Lines:
        """Skip comments and blank lines from the start of a line to the next statement or item."""
        found: Lines = []
        while True:
            self.space()
            if self.sees("#"):
                found.append(self.comment())
            elif self.sees("\n"):
                if not found or found[-1]:
                    found.append("")
            else:
                return found
            if self.at >= len(self.text):
                return found
            self.at += 1  # the end of the line

    def comment(self) -> str:
        end = self.text.find("\n", self.at)
        start, self.at = self.at, len(self.text) if end < 0 else end
        return self.text[start : self.at].rstrip()

    def rest_of_line(self) -> str:
        """Skip the rest of a line with its end; return the comment in it."""
        self.space()
        found = self.comment() if self.sees("#") else ""
        self.at += 1
        return found

    def key(self) -> str:
        """Skip a dotted key and the equals sign after it; return it without spaces."""
        found = self.keys()
        self.at += 1
        return found

    def keys(self) -> str:
        parts = []
        while True:
            self.space()
            match = KEY.match(self.text, self.at)
            assert match is not None
            parts.append(match[0])
            self.at = match.end()
            self.space()
            if not self.sees("."):
                return ".".join(parts)
            self.at += 1

    def header(self) -> str:
        brackets = 2 if self.sees("[[") else 1
        self.at += brackets
        found = self.keys()
        self.at += brackets
        return "[" * brackets + found + "]" * brackets

    def value(self) -> Value:
        self.space()
        if self.sees("[") or self.sees("{"):
            return self.items(table=self.sees("{"))
        match = (STRING if self.text[self.at] in "\"'" else BARE_VALUE).match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return match[0].strip()

    def items(self, table: bool) -> Items:
        found = Items("{}" if table else "[]")
        self.at += 1
        while True:
            before = self._between(found)
            if self.sees(found.brackets[1]):
                self.at += 1
                found.end = before
                return found
            key = self.key() if table else ""
            found.items.append(Entry(before, key, self.value()))

    def _between(self, found: Items) -> Lines:
        """Skip everything before an item or the end: a comma, and lines. A comment on the line of the last item, before
        or after the comma, becomes its comment; others are returned."""
        lines: Lines = []
        same_line = bool(found.items)
        while True:
            self.space()
            if self.sees(","):
                self.at += 1
            elif self.sees("\n"):
                self.at += 1
                found.lines = True
                if not same_line and (not lines or lines[-1]) and self._blank():
                    lines.append("")
                same_line = False
            elif self.sees("#"):
                comment = self.comment()
                if same_line and not found.items[-1].comment:
                    found.items[-1].comment = comment
                else:
                    lines.append(comment)
            else:
                return lines

    def _blank(self) -> bool:
        """Return whether the line that just ended was blank."""
        return not self.text[self.text.rfind("\n", 0, self.at - 1) + 1 : self.at].strip(" \t\n,")
