"""Expand one declaration with a matrix into a declaration for each combination of the matrix's axes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from modelbuild.errors import did_you_mean
from modelbuild.loading.matrix import MATRIX, Matrix, Scalar, scalar_text
from modelbuild.workspace.toml_document import Document, show
from modelbuild.workspace.toml_tokens import KeyPath

# Characters of a text after substitution.
_LONGEST = 100_000

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def expand_matrix(
    document: Document, path: KeyPath, declaration: Mapping[str, Any], matrix: Matrix
) -> list[Mapping[str, Any]]:
    """Return a declaration for each combination of `matrix`, in order, without the attribute `matrix`; `declaration` is
    the one at `path`.

    `{axis}` in a string, at any depth, also in the name, is replaced by the axis's value. A string that is only
    `"{axis}"` becomes the value itself, such as a number or a boolean (a name is always text). `{{` and `}}` are
    braces. Raises LoadingError.
    """
    rest = {key: value for key, value in declaration.items() if key != MATRIX}
    names: set[str] = set()
    expanded: list[Mapping[str, Any]] = []
    for combination in matrix.combinations:
        variant = {key: _fill(document, (*path, key), value, combination, matrix) for key, value in rest.items()}
        name = variant["name"] = scalar_text(variant["name"])
        if name in names:
            message = f"'name': several combinations of {matrix.title} are called {show(name)}"
            raise document.error((*path, "name"), message + _advice(matrix, rest["name"]))
        names.add(name)
        expanded.append(variant)
    return expanded


def _advice(matrix: Matrix, name: str) -> str:
    unused = [f"{{{axis}}}" for axis, values in matrix.axes.items() if len(values) > 1 and f"{{{axis}}}" not in name]
    return f"; it must use {' and '.join(unused)}" if unused else ""


def _fill(document: Document, path: KeyPath, value: Any, combination: Mapping[str, Scalar], matrix: Matrix) -> Any:
    if isinstance(value, dict):
        return {key: _fill(document, (*path, key), item, combination, matrix) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(document, (*path, index), item, combination, matrix) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        braces, axis = match[0], match[1]
        if axis in combination:
            return scalar_text(combination[axis])
        if axis is not None:
            raise document.error(path, f"no axis {axis!r} in {matrix.title}{did_you_mean(axis, combination)}")
        if len(braces) == 2:
            return braces[0]
        raise document.error(path, f"a '{braces}' alone; expected {{axis}}, or '{braces * 2}' for the brace itself")

    if "{" not in value and "}" not in value:
        return value
    whole = _BRACES.fullmatch(value)
    if whole is not None and whole[1] in combination:
        return combination[whole[1]]
    used = _BRACES.findall(value)
    if sum(len(scalar_text(combination[axis])) for axis in used if axis in combination) > _LONGEST:
        raise document.error(path, f"the axes make this text longer than {_LONGEST} characters")
    return _BRACES.sub(replace, value)
