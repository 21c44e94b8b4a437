"""The matrices of a BUILD file: their declarations, and the targets that name them."""

from __future__ import annotations

from modelbuild.loading.matrix import MATRIX, Matrix
from modelbuild.loading.package import Package
from modelbuild.lsp.cursor import Cursor
from modelbuild.lsp.places import Span, span, span_at
from modelbuild.workspace.toml_tokens import Kind, Role, read_tokens
from modelbuild.workspace.toml_values import toml_value


def matrix_at(package: Package | None, cursor: Cursor) -> Matrix | None:
    """Return the matrix whose name is at a cursor, in its declaration or in a target; None for anything else."""
    declared = cursor.table == MATRIX and cursor.path == ("name",)
    if package is None or cursor.kind != "value" or not (declared or cursor.path == (MATRIX,)):
        return None
    return package.matrices.get(cursor.text)


def matrix_span(package: Package, matrix: Matrix) -> Span:
    """Return the span of the header of a matrix's declaration."""
    return span_at(package.document.text, package.document.location(matrix.path))


def uses_of_matrix(package: Package, matrix: Matrix) -> list[Span]:
    """Return the spans of a matrix's name: in its declaration, then in the targets."""
    text = package.document.text
    strings = [each for each in read_tokens(text) if each.role is Role.VALUE and each.kind is Kind.STRING]
    found = [each for each in strings if each.value == matrix.name]
    declared = [each for each in found if each.path == (*matrix.path, "name")]
    used = [each for each in found if len(each.path) == 3 and each.path[0] != MATRIX and each.path[2] == MATRIX]
    return [span(text, each.start + 1, each.end - 1) for each in (*declared, *used)]


def matrix_axes(matrix: Matrix) -> str:
    """Return the axes of a matrix in TOML, on one line."""
    return ", ".join(f"{axis} = {toml_value(values)}" for axis, values in matrix.axes.items())
