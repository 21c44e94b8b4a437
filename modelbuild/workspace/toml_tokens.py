"""The only reader of TOML's written form; tomli gives the values of a document, without positions.

The tokens of a text, and the spaces and tabs between them, are all of its characters. Positions, the formatter, the
language server and completion use them. The grammar is TOML 1.1 (newlines and comments inside inline tables). Nothing
is checked, and any text has tokens, because users type in it.

tomlkit is not used: it gives no positions, refuses unfinished text, and moves arrays of tables that other tables
interrupt, as in BUILD files.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import tomli

# The keys and indices of a value in a document, such as ("torch_model", 0, "inputs", 1, "shape").
KeyPath: TypeAlias = tuple[str | int, ...]

_STRING = (
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"?'
    r"|'[^'\n]*'?"
)
# Steps of a path; deeper values have the path of their parent.
_LEVELS = 200
# A date and its time may have a space between them.
_WORD_OF_VALUE = r"[^\s\[\]{},=\"'#]+(?: \d\d:[^\s\[\]{},=\"'#]*)?"
# The start of a line that no array contains: the array before it is not closed yet.
_HEADER = r"\[\[?[ \t]*(?!(?:true|false|inf|nan)\b)[A-Za-z_][\w.-]*[ \t]*(?:\]|$)"
_PAIR = r"[\w-]+[ \t]*=(?!=)"


class Kind(Enum):
    NEWLINE = auto()
    COMMENT = auto()
    PUNCTUATION = auto()
    STRING = auto()  # with its quotes; the last quote may be missing
    WORD = auto()  # a bare key, or a number, date, time, boolean
    OTHER = auto()  # a character that TOML does not allow there
    END = auto()  # the end of the text, with no characters


class Role(Enum):
    """The part of a statement that a token belongs to, or that may follow where a space or a newline is."""

    HEADER = auto()
    KEY = auto()
    VALUE = auto()


class Token(NamedTuple):
    """Some characters of a text.

    path  for a value or its brackets, its own path; for a key, the path of the table that contains it
    """

    kind: Kind
    text: str
    start: int
    role: Role
    path: KeyPath

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def value(self) -> str:
        """The text of a key or string without quotes and escapes."""
        return _unquoted(self.text)


_KINDS = Kind.__members__
_NO_VALUE = ("", "\n", "]", "}", ",", "=")


class _Open:
    """An array or inline table whose closing bracket has not come yet."""

    __slots__ = ("index", "is_array", "path")

    def __init__(self, path: KeyPath, is_array: bool) -> None:
        self.path = path
        self.is_array = is_array
        self.index = 0


@lru_cache(maxsize=4)
def read_tokens(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text with line ends `\\n`."""
    return tuple(_Reader(text).read())


def positions(text: str) -> dict[KeyPath, tuple[int, int]]:
    """Return line and column, from 1, of every path of the document `text`.

    A key's position is its first occurrence; an array element's is the start of its value, or the `[[` of its header.
    The document itself, path (), is at 1:1.
    """
    found: dict[KeyPath, int] = {(): 0}
    header = -1  # the start of the header of an array's element, until the path of the element is known
    for kind, word, start, role, path in read_tokens(text):
        if header >= 0 and role is not Role.HEADER:
            found.setdefault(path, header)
            header = -1
        if role is Role.VALUE:
            if path and type(path[-1]) is int and kind is not Kind.COMMENT and word not in _NO_VALUE:
                found.setdefault(path, start)
        elif kind is Kind.WORD or kind is Kind.STRING:
            found.setdefault((*path, _unquoted(word)), start)
        elif word == "[[":
            header = start
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    lines = {path: bisect_right(starts, offset) for path, offset in found.items()}
    return {path: (line, found[path] - starts[line - 1] + 1) for path, line in lines.items()}


def _unquoted(text: str) -> str:
    quote = text[:1]
    if quote not in ('"', "'"):
        return text
    if len(text) < 2 or text[-1] != quote:  # not closed yet
        return text[1:]
    if "\\" not in text and text[:3] != 3 * quote:
        return text[1:-1]
    try:
        value: str = tomli.loads(f"key = {text}")["key"]
    except tomli.TOMLDecodeError:  # a control character or an escape that TOML does not allow
        return text[1:-1]
    return value


def _below(path: KeyPath, step: str | int) -> KeyPath:
    return (*path, step) if len(path) < _LEVELS else path


def _pattern(punctuation: str, word: str) -> re.Pattern[str]:
    """Return a pattern of a token and the spaces before it; the name of its group is the token's kind."""
    return re.compile(
        rf"[ \t]*(?:(?P<PUNCTUATION>[{punctuation}])|(?P<WORD>{word})|(?P<STRING>{_STRING})"
        r"|(?P<NEWLINE>\n)|(?P<COMMENT>#[^\n]*)|(?P<OTHER>.)|(?P<END>\Z))",
        re.DOTALL,
    )


class _Reader:
    """Reads a text from its start; `role` and `path` describe the next token."""

    def __init__(self, text: str) -> None:
        # Compiled here, because most processes read no tokens; re caches them.
        self.keys = _pattern(r"\[\]{},=.", "[A-Za-z0-9_-]+")
        self.values = _pattern(r"\[\]{},=", _WORD_OF_VALUE)
        self.text = text
        self.role = Role.KEY
        self.path: KeyPath = ()
        self.table: KeyPath = ()  # the path of the last header
        self.open: list[_Open] = []
        self.dotted = False  # the next key is below the previous key
        self.counts: dict[KeyPath, int] = {}  # number of elements so far of each array of tables

    def read(self) -> list[Token]:
        tokens: list[Token] = []
        at = 0
        kind = Kind.NEWLINE
        while kind is not Kind.END:
            match = (self.values if self.role is Role.VALUE else self.keys).match(self.text, at)
            assert match is not None
            assert match.lastgroup is not None
            start, at = match.span(match.lastgroup)
            word = self.text[start:at]
            new_line = kind is Kind.NEWLINE  # no statement has begun on the line
            kind = _KINDS[match.lastgroup]
            if kind is Kind.PUNCTUATION:
                if word == "[" or word == "]":
                    word = self.bracket(word, start, new_line)
                    at = start + len(word)
                tokens.append(Token(kind, word, start, self.role, self.path))
                self.punctuation(word)
                continue
            tokens.append(Token(kind, word, start, self.role, self.path))
            if kind is Kind.NEWLINE:
                self.newline(at)
            elif self.role is not Role.VALUE and (kind is Kind.WORD or kind is Kind.STRING):
                self.key(word)
        return tokens

    def bracket(self, word: str, at: int, new_line: bool) -> str:
        """Return the bracket at an offset, which may be double in a header."""
        if word == "[" and new_line and self.role is Role.KEY and not self.open:
            self.role, self.path = Role.HEADER, ()
        return word * 2 if self.role is Role.HEADER and self.text.startswith(word, at + 1) else word

    def key(self, word: str) -> None:
        self.path = _below(self.path if self.dotted else self.around(), _unquoted(word))
        self.dotted = False

    def around(self) -> KeyPath:
        """Return the path of the table that a new key is in."""
        if self.role is Role.HEADER:
            return ()
        return self.open[-1].path if self.open else self.table

    def newline(self, at: int) -> None:
        if self.role is Role.HEADER:
            self.begin(self.path)
        elif self.open:
            following = f"{_HEADER}|{_PAIR}" if self.open[-1].is_array else _HEADER
            if re.compile(rf"[ \t]*(?:{following})", re.MULTILINE).match(self.text, at) is None:
                return
        self.open.clear()
        self.role, self.path, self.dotted = Role.KEY, self.table, False

    def begin(self, table: KeyPath) -> None:
        self.table = self.path = table
        self.role = Role.KEY

    def punctuation(self, word: str) -> None:
        role = self.role
        if word == ".":
            self.dotted = True
            if role is Role.HEADER and self.path in self.counts:
                self.path = (*self.path, self.counts[self.path] - 1)
        elif role is Role.HEADER:
            if word == "]]":
                index = self.counts.get(self.path, 0)
                self.counts[self.path] = index + 1
                self.begin((*self.path, index))
            elif word == "]":
                self.begin(self.path)
        elif word == "=":
            self.role = Role.VALUE
        elif word in "[{":
            self.open.append(_Open(self.path, word == "["))
            self.item()
        elif self.open:
            if word == ",":
                self.open[-1].index += 1
                self.item()
            else:  # a closing bracket
                self.role, self.path = Role.VALUE, self.open.pop().path

    def item(self) -> None:
        """Expect an item of the innermost array or inline table."""
        around = self.open[-1]
        self.dotted = False
        self.role = Role.VALUE if around.is_array else Role.KEY
        self.path = _below(around.path, around.index) if around.is_array else around.path
