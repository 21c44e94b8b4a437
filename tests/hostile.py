"""Hostile data for property tests: names, TOML documents and damaged files.

A property runs on a sample of cases that never changes, and on everything, with another seed each time, in tests that
are marked exhaustive.
"""

from __future__ import annotations

import copy
import datetime
import functools
import json
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# Texts that have broken a program somewhere: control characters, separators, paths, quotes, digits of other scripts.
NASTY = (
    *("", " ", "\0", "a\0b", "\n", "a\nb", "a\r", "a\tb", "\x1b[31mred", "\x7f", "\x85", "\u2028", "\ufeff", "\u202e"),
    *(".", "..", "...", "../x", "/etc/passwd", "a/../b", "a//b", "a/", "./a", "~", "~nobody", "$HOME", "%s%n", "%2e"),
    *("//", "//:", ":", "::", "//a:b:c", "//...", "...", "//a/...", "-//a", "-", "--", "--help", "@a//b", "//a:all"),
    *("{", "}", "{x}", "{{}}", "[", "**", "a**", "**/**/**/**", "*?*?*?*?", "'", '"', "\\", "\\u0000", "$(x)", "`x`"),
    *("é", "\U0001f600", "٣", "\uff11", "ﬀ", "e\u0301", "a" * 256, "é" * 200, "x" * 5000, "a/" * 3000 + "b", "*" * 300),
    *("0", "-1", "1e400", "9" * 400, "9" * 400 + "GiB", "1.5.5", "0x10", "nan", "inf", "true", "None", "8.6", "99.9"),
)


class Written:
    """A value of TOML by the text it is written as: Python itself does not show every number."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Written({self.text[:9]}...)"


INTEGERS = (0, -1, 1, 2, 255, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, -(10**400), Written("0x" + "f" * 5000))
FLOATS = (0.0, -1.0, 1e308, float("inf"), float("-inf"), float("nan"))


def texts() -> st.SearchStrategy[str]:
    """Generate hostile texts, and any others that TOML supports."""
    return st.sampled_from(NASTY) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def scalars() -> st.SearchStrategy[Any]:
    """Generate TOML values except tables and arrays."""
    moments = st.sampled_from(
        [datetime.date(2024, 2, 29), datetime.time(23, 59), datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)]
    )
    numbers = st.sampled_from(INTEGERS) | st.integers(-9, 999) | st.floats() | st.sampled_from(FLOATS)
    return texts() | numbers | st.booleans() | moments


def toml_values() -> st.SearchStrategy[Any]:
    """Any value of TOML."""
    return st.recursive(
        scalars(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
        max_leaves=6,
    )


def as_toml(value: Any) -> str:
    """Return a value as inline TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {as_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value.text if isinstance(value, Written) else repr(value)


def document(tables: dict[str, Any]) -> str:
    """Return a document: arrays of tables under headers, everything else inline."""
    lines = []
    for name, value in sorted(tables.items(), key=lambda item: _is_tables(item[1])):
        if not _is_tables(value):
            lines.append(f"{_quoted(name)} = {as_toml(value)}")
            continue
        for table in value:
            lines.append(f"[[{_quoted(name)}]]")
            lines += [f"{_quoted(key)} = {as_toml(item)}" for key, item in table.items()]
    return "\n".join(lines) + "\n"


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


@st.composite
def mutated(draw: st.DrawFn, tables: dict[str, Any], most: int = 2) -> dict[str, Any]:
    """Generate tables with changes in one of them: values replaced, keys removed, added and renamed, items duplicated,
    selects inserted. The others stay valid, so that most errors occur after loading."""
    changed = copy.deepcopy(tables)
    one = draw(st.sampled_from(sorted(changed)))
    for _ in range(draw(st.integers(1, most))):
        places = list(_places(changed.get(one, {})) if isinstance(changed.get(one), (dict, list)) else ())
        if not places or draw(st.integers(0, 30)) == 0:
            places = [(changed, one)] if one in changed else list(_places(changed))
        if not places:
            break
        _change(draw, *draw(st.sampled_from(places)))
    return changed


_CHANGES = ("replace", "replace", "like", "like", "drop", "add", "rename", "double", "select", "wrap")


def _change(draw: st.DrawFn, holder: Any, key: Any) -> None:
    value = holder[key]
    how = draw(st.sampled_from(_CHANGES))
    if how == "replace":
        holder[key] = draw(toml_values())
    elif how == "like":
        holder[key] = draw(_like(value))
    elif how == "drop":
        del holder[key]
    elif how == "add" and isinstance(value, dict):
        value[draw(texts())] = draw(toml_values())
    elif how == "rename" and isinstance(holder, dict):
        holder[draw(texts())] = holder.pop(key)
    elif how == "double" and isinstance(holder, list):
        holder.append(copy.deepcopy(value))
    elif how == "select":
        branch = draw(st.sampled_from(("//:cpu", "default", ":gpu")) | texts())
        holder[key] = {"select": {branch: value, "default": draw(toml_values())}}
    elif how == "wrap":
        holder[key] = [value]


def _like(value: Any) -> st.SearchStrategy[Any]:
    """Another value of the same type."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int):
        return st.sampled_from(INTEGERS)
    if isinstance(value, float):
        return st.sampled_from(FLOATS) | st.floats()
    if isinstance(value, str):
        return texts() | st.sampled_from(_spoiled(value))
    return toml_values()


def _spoiled(text: str) -> tuple[str, ...]:
    return (text + "\0", text + "\n", text + "/../x", "{" + text + "}", text * 3000)


def replaced(tables: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield tables in which one value below `name` is replaced: each value in turn, by each hostile value."""
    for path in _paths(tables[name], (name,)):
        value = functools.reduce(operator.getitem, path, tables)  # type: ignore[arg-type]
        spoiled = _spoiled(value) if isinstance(value, str) else ()
        for other in (*NASTY, *INTEGERS, *FLOATS, *_OTHERS, *spoiled):
            changed = copy.deepcopy(tables)
            functools.reduce(operator.getitem, path[:-1], changed)[path[-1]] = other  # type: ignore[arg-type]
            yield changed


_OTHERS = (
    *(True, False, [], {}, [""], [[[]]], [1, "a"], ["a\nb"], {"": 1}, {"\0": "\0"}, {"a\nb": 1}, {"a": {"b": {}}}),
    *({"select": {}}, {"select": {"default": 1}}, {"select": {"//:none": 1}}, {"glob": []}, {"glob": ["*a" * 40]}),
    datetime.date(2024, 2, 29),
)


def _paths(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, (dict, list)):
            yield from _paths(item, (*path, key))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every value below this one, as its container and its key there."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, item in items:
        yield value, key
        if isinstance(item, (dict, list)):
            yield from _places(item)


@st.composite
def damaged(draw: st.DrawFn, content: bytes, most: int = 4) -> bytes:
    """Bytes with up to some changes: cut short, overwritten, cut out, put in, repeated."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, len(data)))
        how = draw(st.sampled_from(("cut", "flip", "flip", "flip", "remove", "insert", "repeat", "fill")))
        if how == "cut":
            del data[at:]
        elif how == "flip" and at < len(data):
            data[at] = draw(st.integers(0, 255))
        elif how == "remove":
            del data[at : at + draw(st.integers(1, 64))]
        elif how == "insert":
            data[at:at] = draw(st.binary(max_size=8) | st.sampled_from(_INSERTED))
        elif how == "repeat":
            data[at:at] = data[at : at + draw(st.integers(1, 64))] * draw(st.integers(1, 3))
        elif how == "fill":
            size = draw(st.sampled_from((1, 2, 4, 8)))
            data[at : at + size] = draw(st.sampled_from((b"\0", b"\xff", b"\x7f", b"\x80"))) * size
    return bytes(data)


_INSERTED = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\n", b'"', b"'''", b"\\", b"#"),
    *(b"[" * 200, b"{a=" * 200, b"[" * 100_000, b"-" * 5000, b"(" * 5000, b"9" * 5000, b"a." * 5000, b"1e999", b"NaN"),
)


def run_property(examples: int, strategy: st.SearchStrategy[Any], holds: Callable[[Any], None]) -> None:
    """Call `holds` with this many values; with the same ones each time if they are few."""

    @settings(
        max_examples=examples,
        derandomize=examples < 1000,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def check(value: Any) -> None:
        holds(value)

    check()


def cases(sample: int, everything: int) -> pytest.MarkDecorator:
    """Parametrize `examples`: a sample, and in the exhaustive run everything."""
    return pytest.mark.parametrize(
        "examples",
        [pytest.param(sample, id="sample"), pytest.param(everything, id="everything", marks=pytest.mark.exhaustive)],
    )
