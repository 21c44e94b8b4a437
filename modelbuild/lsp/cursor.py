"""The place of a cursor in a BUILD file, which need not be valid TOML, because users type in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, TypeAlias

from modelbuild.workspace.toml_tokens import KeyPath, Kind, Role, Token, read_tokens

Place: TypeAlias = Literal["header", "key", "value", "other"]


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of a cursor.

    kind    a rule's name in a header, an attribute's name, a value, or anything else
    table   the rule of the table around it, `package`, or ''
    header  the offset of the table's header; -1 without
    path    the keys and indices of the key or value in the table
    text    the whole word or string there, without quotes; `before` is its part before the cursor
    start   the offset of the word or of the string's text; `end` is the offset after it
    quoted  whether it is a string
    keys    of a key, the other keys of its table
    """

    kind: Place
    table: str = ""
    header: int = -1
    path: KeyPath = ()
    text: str = ""
    before: str = ""
    start: int = 0
    end: int = 0
    quoted: bool = False
    keys: tuple[str, ...] = ()


def cursor_at(text: str, offset: int) -> Cursor:
    """Return the place of an offset of a BUILD file."""
    tokens = read_tokens(text)
    number = next(number for number, token in enumerate(tokens) if _reaches(token, offset))
    token = tokens[number]
    header = _header(tokens[: number + 1])
    if token.role is Role.HEADER and header is not None and header.start < offset:
        return _in_header(text, offset, tokens[tokens.index(header) :])
    inside = token.start < offset
    comment = token.kind is Kind.COMMENT and inside
    if comment or header is None or header.start == offset or not token.path:
        return Cursor("other", start=offset, end=offset)
    start, end = (token.start, token.end) if inside else (offset, offset)
    quoted = inside and token.kind is Kind.STRING
    if quoted:
        start, end = start + 1, end if _is_open(token) else end - 1
    table, *path = token.path
    if path and isinstance(path[0], int):  # an element of an array of tables
        del path[0]
    word = text[start:end]
    kind: Place = "value"
    keys: tuple[str, ...] = ()
    if token.role is Role.KEY:
        kind = "key"
        path.append(word)
        keys = tuple(each.value for each in tokens if _is_key(each, token.path) and each is not token)
    before = text[start:offset]
    return Cursor(kind, str(table), header.start, tuple(path), word, before, start, end, quoted, keys)


def _reaches(token: Token, offset: int) -> bool:
    """Return whether an offset is before the end of a token, or at its end and still in it."""
    if token.end == offset:
        return token.kind in (Kind.WORD, Kind.COMMENT, Kind.END) or (token.kind is Kind.STRING and _is_open(token))
    return token.end > offset


def _is_open(token: Token) -> bool:
    """Return whether a string is not closed yet."""
    return len(token.text) < 2 or token.text[-1] != token.text[0]


def _is_key(token: Token, table: KeyPath) -> bool:
    return token.role is Role.KEY and token.path == table and token.kind in (Kind.WORD, Kind.STRING)


def _header(tokens: Sequence[Token]) -> Token | None:
    """Return the opening brackets of the last header."""
    return next((token for token in reversed(tokens) if opens_header(token)), None)


def opens_header(token: Token) -> bool:
    return token.role is Role.HEADER and token.text in ("[", "[[")


def header_tokens(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens of the header that some tokens begin with."""
    return takewhile(lambda token: token.role is Role.HEADER and token.kind not in (Kind.NEWLINE, Kind.END), tokens)


def _in_header(text: str, offset: int, tokens: Sequence[Token]) -> Cursor:
    """Return the place of an offset of a header, given its tokens and all after them."""
    words = [token for token in header_tokens(tokens) if token.text not in ("[", "[[", "]", "]]")]
    start, end = (words[0].start, words[-1].end) if words else (offset, offset)
    if not start <= offset <= end:
        start = end = offset
    begin = tokens[0].start
    return Cursor("header", header=begin, text=text[start:end], before=text[start:offset], start=start, end=end)
