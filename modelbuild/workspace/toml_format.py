"""Format TOML: one form for spaces, quotes, line breaks and blank lines; comments stay where they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tomli

from modelbuild.workspace.toml_statements import Entry, Items, Lines, Section, Value, read_statements

WIDTH = 120
_INDENT = "    "
# A literal string that is also valid in double quotes.
_PLAIN = re.compile(r"'([^'\"\\\n]*)'")

# Returns the keys of a table in order, by its header; () to keep the order of all.
Order: TypeAlias = Callable[[str], Sequence[str]]


def format_toml(text: str, order: Order = lambda header: ()) -> str:
    """Return a valid document formatted, with its pairs sorted by `order`: keys that `order` lacks come last. The order
    of tables and array items, which are values, stays."""
    sections, end = read_statements(text)
    for section in sections:
        _sort(section, order(section.header))
    lines: Lines = []
    for section in sections:
        lines += _apart(lines, section.before)
        if section.header:
            lines.append(section.header + _behind(section.comment))
        for number, pair in enumerate(section.pairs):
            lines += pair.before if number else _trimmed(pair.before)
            lines += _pair(pair)
    lines += end if lines else _trimmed(end)
    while lines and not lines[-1]:
        lines.pop()
    made = "".join(f"{line}\n" for line in lines)
    if _comparable(tomli.loads(made)) != _comparable(tomli.loads(text)):
        raise AssertionError("the formatted document has another value")
    return made


def _sort(section: Section, keys: Sequence[str]) -> None:
    rank = {key: number for number, key in enumerate(keys)}
    section.pairs.sort(key=lambda pair: rank.get(pair.key.partition(".")[0].strip("\"'"), len(rank)))


def _apart(lines: Lines, before: Lines) -> Lines:
    """Return the lines before a header, with a blank line after the previous section. Comments above the first blank
    line belong to that section, unless there is no blank line."""
    if not lines:
        return _trimmed(before)
    return before if "" in before else ["", *before]


def _trimmed(lines: Lines) -> Lines:
    """Return lines without blank lines at the start."""
    return lines[1:] if lines and not lines[0] else lines


def _behind(comment: str) -> str:
    return f"  {comment}" if comment else ""


def _pair(pair: Entry) -> Lines:
    start = f"{pair.key} = "
    return _written(start, pair.value, "", _behind(pair.comment), "")


def _written(start: str, value: Value, end: str, comment: str, indent: str) -> Lines:
    """Return the lines of a value between two texts, indented."""
    if not _has_lines(value):
        line = f"{indent}{start}{_flat(value)}{end}"
        if len(line) <= WIDTH or not _can_break(value):
            return f"{line}{comment}".split("\n")  # a string may have several lines
    assert isinstance(value, Items)
    if value.brackets == "{}" and not _has_own_lines(value):
        return _hugged(start, value, end + comment, indent)
    deeper = indent + _INDENT
    lines = [f"{indent}{start}{value.brackets[0]}"]
    for number, item in enumerate(value.items):
        lines += [deeper + line if line else "" for line in (item.before if number else _trimmed(item.before))]
        key = f"{item.key} = " if item.key else ""
        lines += _written(key, item.value, ",", _behind(item.comment), deeper)
    inner = value.end if value.items else _trimmed(value.end)
    lines += [deeper + line if line else "" for line in (inner[:-1] if inner and not inner[-1] else inner)]
    return [*lines, f"{indent}{value.brackets[1]}{end}{comment}"]


def _hugged(start: str, value: Items, end: str, indent: str) -> Lines:
    """Return the lines of an inline table whose values have several lines, without line breaks between its items, which
    TOML 1.0 forbids."""
    lines = [f"{indent}{start}{{ "]
    for number, item in enumerate(value.items):
        comma = "" if number == len(value.items) - 1 else ", "
        first, *rest = _written(f"{item.key} = ", item.value, comma, "", indent)
        lines[-1] += first.removeprefix(indent)
        lines += rest
    lines[-1] += f" }}{end}"
    return lines


def _has_lines(value: Value) -> bool:
    """Return whether a value contains an array or inline table that was written on several lines, or has comments."""
    if isinstance(value, str):
        return False
    return _has_own_lines(value) or any(_has_lines(item.value) for item in value.items)


def _has_own_lines(value: Items) -> bool:
    comments = any(value.end) or any(item.comment or any(item.before) for item in value.items)
    return comments or bool(value.lines and value.items)


def _can_break(value: Value) -> bool:
    """Return whether a value may be written on several lines: an inline table only in an array, as of TOML 1.0."""
    if isinstance(value, str):
        return False
    return bool(value.items) if value.brackets == "[]" else any(_can_break(item.value) for item in value.items)


def _flat(value: Value) -> str:
    if isinstance(value, str):
        return _PLAIN.sub(r'"\1"', value) if _PLAIN.fullmatch(value) else value
    items = [(f"{item.key} = " if item.key else "") + _flat(item.value) for item in value.items]
    inner = ", ".join(items)
    if value.brackets == "[]":
        return f"[{inner}]"
    return f"{{ {inner} }}" if inner else "{}"


def _comparable(value: Any) -> Any:
    """Return a value for comparison: equal for values that are written as the same TOML, because nan is not equal to
    itself."""
    if isinstance(value, Mapping):
        return {key: _comparable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    return type(value), repr(value) if isinstance(value, float) else value
