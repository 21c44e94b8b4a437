"""The matrices of a BUILD.toml: an attribute of a target, or a table `[[matrix]]` that several targets name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from modelbuild.errors import did_you_mean
from modelbuild.workspace.toml_document import Document, show
from modelbuild.workspace.toml_table import Table
from modelbuild.workspace.toml_tokens import KeyPath

Scalar: TypeAlias = str | int | float | bool

# The attribute of a target, and the table that declares a matrix for several targets.
MATRIX = "matrix"

# A bound against mistakes: expanding three axes of a thousand values each would never finish.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class Matrix:
    """Axes with their values, and the combinations that are not excluded; the last axis varies fastest.

    name  the name of a `[[matrix]]`; '' for an inline matrix
    path  position of its table in the document, such as ("matrix", 0)
    """

    name: str
    path: KeyPath
    axes: Mapping[str, Sequence[Scalar]]
    combinations: Sequence[Mapping[str, Scalar]]

    @property
    def title(self) -> str:
        return f"matrix {show(self.name)}" if self.name else "the matrix"


def read_matrices(document: Document, tables: Sequence[Mapping[str, Any]]) -> dict[str, Matrix]:
    """Return the matrices that the tables `[[matrix]]` of a document declare, by name. A matrix that no target names is
    checked as well. Raises LoadingError."""
    found: dict[str, Matrix] = {}
    for index, values in enumerate(tables):
        table = Table(document, (MATRIX, index), values)
        name = table.line("name", "a string")
        if name is None:
            raise document.error(table.path, 'matrix without a name; expected name = "..."')
        if name in found:
            other = document.location(found[name].path)
            raise table.error(f"name {show(name)} is taken by the matrix at {other}", "name")
        found[name] = _read(table, name)
    return found


def matrix_of(
    document: Document, path: KeyPath, declaration: Mapping[str, Any], matrices: Mapping[str, Matrix]
) -> Matrix:
    """Return the matrix of the declaration at `path`: the one of `matrices` that it names, or its own. Raises
    LoadingError."""
    table = Table(document, path, declaration)
    written = table.get(MATRIX)
    if isinstance(written, dict):
        return _read(Table(document, (*path, MATRIX), written))
    if not isinstance(written, str):
        raise table.wrong(MATRIX, "a table of axes, or the name of a [[matrix]]")
    if written not in matrices:
        raise table.error(f"no [[matrix]] with the name {show(written)}{did_you_mean(written, matrices)}", MATRIX)
    return matrices[written]


def scalar_text(value: Scalar) -> str:
    """Return the text of an axis's value, as it replaces `{axis}` in a longer text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(table: Table, name: str = "") -> Matrix:
    own = ("exclude", "name") if name else ("exclude",)
    axes = {axis: _values(table, axis) for axis in table.values if axis not in own}
    count = math.prod(map(len, axes.values()))
    if not axes:
        raise table.error("'matrix': expected at least one axis, such as size = [224, 320]")
    if count > MOST:
        raise table.error(f"'matrix': {count} combinations; at most {MOST} are possible")
    excluded = _excluded(table, axes)
    every = (dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values()))
    kept = [each for each in every if not any(entry.items() <= each.items() for entry in excluded)]
    if not kept:
        raise table.error("'exclude' leaves no combination", "exclude")
    return Matrix(name, table.path, axes, kept)


def _values(table: Table, axis: str) -> list[Scalar]:
    values = table.get(axis)
    if not isinstance(values, list) or not values:
        raise table.wrong(axis, "an array with at least one value")
    seen: set[str] = set()
    for index, value in enumerate(values):
        if not isinstance(value, (str, int, float)):
            raise table.error(f"'{axis}': expected strings, numbers or booleans, got {show(value)}", axis, index)
        if scalar_text(value) in seen:
            raise table.error(f"'{axis}': {show(value)} is listed twice", axis, index)
        seen.add(scalar_text(value))
    return values


def _excluded(table: Table, axes: Mapping[str, list[Scalar]]) -> list[Mapping[str, Scalar]]:
    entries = table.get("exclude")
    if entries is None:
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise table.wrong("exclude", "an array of tables")
    for index, entry in enumerate(entries):
        for axis, value in entry.items():
            if axis not in axes:
                raise table.error(f"no axis {axis!r}{did_you_mean(axis, axes)}", "exclude", index, axis)
            if value not in axes[axis]:
                raise table.error(f"axis '{axis}' has no value {show(value)}", "exclude", index, axis)
    return [entry for entry in entries if entry]
