"""Ranges in documents: of keys, values and targets, as lines and columns from 0, in characters."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter

from modelbuild.errors import Location
from modelbuild.loading.package import Target
from modelbuild.lsp.cursor import header_tokens, opens_header
from modelbuild.workspace.toml_tokens import KeyPath, Kind, read_tokens


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text by its lines and columns."""

    line: int
    column: int
    last_line: int
    last_column: int


def span(text: str, start: int, end: int) -> Span:
    """Return the span of two offsets."""
    return Span(*_position(text, start), *_position(text, end))


def span_at(text: str, place: Location) -> Span:
    """Return the span of the key, value or header at a location; if there is none, the span of the rest of its line."""
    tokens = read_tokens(text)
    start = _offset(text, place)
    number = bisect_right(tokens, start, key=attrgetter("start")) - 1
    token = tokens[max(number, 0)]
    if token.start <= start < token.end and token.kind is not Kind.NEWLINE:
        if opens_header(token):
            *_, token = header_tokens(tokens[number:])
        return span(text, start, token.end)
    line, column = _position(text, start)
    return Span(line, column, line, max(column + 1, len(text.split("\n")[line])))


def span_of_string(text: str, place: Location, value: str) -> Span:
    """Return the span of the text of the first string with this value at or after a location."""
    start = _offset(text, place)
    for token in read_tokens(text):
        if token.start >= start and token.kind is Kind.STRING and token.value == value:
            return span(text, token.start + 1, token.end - 1)
    return span_at(text, place)


def span_of_target(target: Target) -> Span:
    """Return the span of a target's table: from its header to the next header."""
    text = target.document.text
    start = _offset(text, target.location())
    end = next((token.start for token in read_tokens(text) if token.start > start and opens_header(token)), len(text))
    return span(text, start, start + len(text[start:end].rstrip()))


def name_span(target: Target, path: KeyPath = ("name",)) -> Span:
    """Return the span of the value of a target's name."""
    value = target.label.name
    return span_of_string(target.document.text, target.location(path), value)


def _position(text: str, offset: int) -> tuple[int, int]:
    line = text.count("\n", 0, offset)
    return line, offset - (text.rfind("\n", 0, offset) + 1)


def _offset(text: str, place: Location) -> int:
    """Return the offset of a location; if the text is shorter, the end of its line or of the last line."""
    lines = text.split("\n")
    line = min(place.line, len(lines)) - 1
    return sum(len(each) + 1 for each in lines[:line]) + min(place.column - 1, len(lines[line]))
