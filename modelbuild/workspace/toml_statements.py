"""The statements of a TOML document in their written form: headers, pairs, comments and blank lines.

Checks nothing, because tomli has accepted the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from modelbuild.workspace.toml_tokens import Kind, Role, Token, read_tokens

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
    """An array or inline table. `lines`: each item is on its own line; `end`: lines before its end."""

    brackets: str
    items: list[Entry] = field(default_factory=list)
    lines: bool = False
    end: Lines = field(default_factory=list)


# A scalar is its text.
Value: TypeAlias = str | Items


@dataclass(slots=True)
class Section:
    """A header (`[[torch_model]]`; '' for the part before the first header), its entries, and the lines before the
    header."""

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
        if reader.next.kind is Kind.END:
            return sections, before
        if reader.next.role is Role.HEADER:
            header = reader.written(Role.HEADER)
            sections.append(Section(before, header, reader.rest_of_line()))
        else:
            key = reader.key()
            value = reader.value()
            sections[-1].pairs.append(Entry(before, key, value, reader.rest_of_line()))


class _Reader:
    """Reads the tokens of a text; `next` is the first unread token."""

    def __init__(self, text: str) -> None:
        self.tokens = iter(read_tokens(text))
        self.next = next(self.tokens)

    def take(self) -> Token:
        token, self.next = self.next, next(self.tokens, self.next)
        return token

    def skip(self, word: str) -> bool:
        if self.next.text != word:
            return False
        self.take()
        return True

    def lines(self) -> Lines:
        """Skip comments and blank lines from the start of a line to the next statement."""
        found: Lines = []
        while True:
            if self.next.kind is Kind.COMMENT:
                found.append(self.rest_of_line())
            elif self.next.kind is Kind.NEWLINE:
                _add_blank(found)
                self.take()
            else:
                return found

    def rest_of_line(self) -> str:
        """Skip the rest of a line with its end; return the comment in it."""
        found = self.take().text.rstrip() if self.next.kind is Kind.COMMENT else ""
        self.skip("\n")
        return found

    def written(self, role: Role) -> str:
        """Skip a header, or a dotted key with the equals sign after it; return it without spaces."""
        words = []
        while self.next.role is role and self.next.kind is not Kind.NEWLINE:
            words.append(self.take().text)
        return "".join(words)

    def key(self) -> str:
        return self.written(Role.KEY).removesuffix("=")

    def value(self) -> Value:
        return self.items() if self.next.text in ("[", "{") else self.take().text

    def items(self) -> Items:
        found = Items("[]" if self.take().text == "[" else "{}")
        while True:
            before = self._between(found)
            if self.skip(found.brackets[1]):
                found.end = before
                return found
            key = "" if found.brackets == "[]" else self.key()
            found.items.append(Entry(before, key, self.value()))

    def _between(self, found: Items) -> Lines:
        """Skip everything before an item or the end: a comma, and lines. A comment on the line of the last item, before
        or after the comma, becomes its comment; other comments are returned."""
        lines: Lines = []
        same_line = bool(found.items)
        blank = False  # the line contains only a comma so far
        while True:
            if self.skip("\n"):
                found.lines = True
                if not same_line and blank:
                    _add_blank(lines)
                same_line, blank = False, True
            elif self.next.kind is Kind.COMMENT:
                comment = self.take().text.rstrip()
                blank = False
                if same_line and not found.items[-1].comment:
                    found.items[-1].comment = comment
                else:
                    lines.append(comment)
            elif not self.skip(","):
                return lines


def _add_blank(lines: Lines) -> None:
    if not lines or lines[-1]:
        lines.append("")
