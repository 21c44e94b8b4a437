"""Ranges in documents: of keys, values and targets, as lines and columns from 0, in characters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from modelbuild.errors import Location
from modelbuild.loading.package import Target
from modelbuild.lsp.cursor import HEADER
from modelbuild.workspace.toml_positions import STRING, KeyPath

# What an error's location points to: a header, a string, or a word.
_HEADER = re.compile(r"\[\[?[^\]\n]*\]?\]?")
_WORD = re.compile(r"[^\s,=\[\]{}#]+")


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
    """Return the span of the key, value or header at a location; of its line's rest if there is none."""
    lines = text.split("\n")
    line = min(place.line, len(lines)) - 1
    column = min(place.column - 1, len(lines[line]))
    start = sum(len(each) + 1 for each in lines[:line]) + column
    for pattern in (STRING, _HEADER if not lines[line][:column].strip() else _WORD, _WORD):
        match = pattern.match(text, start)
        if match is not None:
            return span(text, start, match.end())
    return Span(line, column, line, max(column + 1, len(lines[line])))


def span_of_string(text: str, place: Location, value: str) -> Span:
    """Return the span of a string's text: the first one of this value from a location on."""
    lines = text.split("\n")
    start = sum(len(each) + 1 for each in lines[: place.line - 1]) + place.column - 1
    for quote in "\"'":
        found = text.find(f"{quote}{value}{quote}", start)
        if found >= 0:
            return span(text, found + 1, found + 1 + len(value))
    return span_at(text, place)


def span_of_target(target: Target) -> Span:
    """Return the span of a target's table: from its header to the next one."""
    text = target.document.text
    begin = target.location()
    start = sum(len(line) + 1 for line in text.split("\n")[: begin.line - 1]) + begin.column - 1
    following = HEADER.search(text, text.find("\n", start) + 1 or len(text))
    end = following.start() if following is not None else len(text)
    return span(text, start, start + len(text[start:end].rstrip()))


def name_span(target: Target, path: KeyPath = ("name",)) -> Span:
    """Return the span of the value of a target's name."""
    value = target.label.name
    return span_of_string(target.document.text, target.location(path), value)


def _position(text: str, offset: int) -> tuple[int, int]:
    line = text.count("\n", 0, offset)
    return line, offset - (text.rfind("\n", 0, offset) + 1)
