"""Expand one declaration with a `matrix` into a declaration for each combination of its axes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from modelbuild.errors import did_you_mean
from modelbuild.workspace.toml_document import Document, show
from modelbuild.workspace.toml_table import Table
from modelbuild.workspace.toml_tokens import KeyPath

Scalar: TypeAlias = str | int | float | bool

# A bound against mistakes: expanding three axes of a thousand values each would never finish.
MOST = 10_000

# Characters of a text after substitution.
_LONGEST = 100_000

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def expand_matrix(document: Document, path: KeyPath, declaration: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a declaration for each combination of the axes of the declaration at `path`; the last axis varies fastest.

    `{axis}` in a string, at any depth, also in the name, is replaced by the axis's value. A string that is only
    `"{axis}"` becomes the value itself, such as a number or a boolean (a name is always text). `{{` and `}}` are
    braces. Raises LoadingError.
    """
    table = Table(document, path, declaration)
    axes = table.table("matrix")
    assert axes is not None
    values = {axis: _values(axes, axis) for axis in axes.values if axis != "exclude"}
    count = math.prod(map(len, values.values()))
    if not values:
        raise table.error("'matrix': expected at least one axis, such as size = [224, 320]", "matrix")
    if count > MOST:
        raise table.error(f"'matrix': {count} combinations; at most {MOST} are possible", "matrix")
    excluded = _excluded(axes, values)
    rest = {key: value for key, value in declaration.items() if key != "matrix"}
    names: set[str] = set()
    expanded: list[Mapping[str, Any]] = []
    for chosen in itertools.product(*values.values()):
        combination = dict(zip(values, chosen, strict=True))
        if any(entry.items() <= combination.items() for entry in excluded):
            continue
        variant = {key: _fill(document, (*path, key), value, combination) for key, value in rest.items()}
        name = variant["name"] = _text(variant["name"])
        if name in names:
            message = f"'name': several combinations of the matrix are called {show(name)}"
            raise table.error(message + _advice(values, rest["name"]), "name")
        names.add(name)
        expanded.append(variant)
    if not expanded:
        raise axes.error("'exclude' leaves no combination", "exclude")
    return expanded


def _advice(values: Mapping[str, list[Scalar]], name: str) -> str:
    unused = [f"{{{axis}}}" for axis, options in values.items() if len(options) > 1 and f"{{{axis}}}" not in name]
    return f"; it must use {' and '.join(unused)}" if unused else ""


def _values(axes: Table, axis: str) -> list[Scalar]:
    values = axes.get(axis)
    if not isinstance(values, list) or not values:
        raise axes.wrong(axis, "an array with at least one value")
    seen: set[str] = set()
    for index, value in enumerate(values):
        if not isinstance(value, (str, int, float)):
            raise axes.error(f"'{axis}': expected strings, numbers or booleans, got {show(value)}", axis, index)
        if _text(value) in seen:
            raise axes.error(f"'{axis}': {show(value)} is listed twice", axis, index)
        seen.add(_text(value))
    return values


def _excluded(axes: Table, values: Mapping[str, list[Scalar]]) -> list[Mapping[str, Scalar]]:
    entries = axes.get("exclude")
    if entries is None:
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise axes.wrong("exclude", "an array of tables")
    for index, entry in enumerate(entries):
        for axis, value in entry.items():
            if axis not in values:
                raise axes.error(f"no axis {axis!r}{did_you_mean(axis, values)}", "exclude", index, axis)
            if value not in values[axis]:
                raise axes.error(f"axis '{axis}' has no value {show(value)}", "exclude", index, axis)
    return [entry for entry in entries if entry]


def _fill(document: Document, path: KeyPath, value: Any, combination: Mapping[str, Scalar]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(document, (*path, key), item, combination) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(document, (*path, index), item, combination) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        braces, axis = match[0], match[1]
        if axis in combination:
            return _text(combination[axis])
        if axis is not None:
            raise document.error(path, f"no axis {axis!r} in the matrix{did_you_mean(axis, combination)}")
        if len(braces) == 2:
            return braces[0]
        raise document.error(path, f"a '{braces}' alone; expected {{axis}}, or '{braces * 2}' for the brace itself")

    if "{" not in value and "}" not in value:
        return value
    whole = _BRACES.fullmatch(value)
    if whole is not None and whole[1] in combination:
        return combination[whole[1]]
    used = _BRACES.findall(value)
    if sum(len(_text(combination[axis])) for axis in used if axis in combination) > _LONGEST:
        raise document.error(path, f"the axes make this text longer than {_LONGEST} characters")
    return _BRACES.sub(replace, value)


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
