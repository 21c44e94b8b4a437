"""Go to definition, find references, hover and symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modelbuild.analysis.rule_help import describe_attribute, describe_rule
from modelbuild.errors import UsageError
from modelbuild.labels import Label
from modelbuild.loading.package import Target
from modelbuild.loading.tree import join
from modelbuild.lsp.cursor import Cursor
from modelbuild.lsp.matrices import matrix_at, matrix_axes, matrix_span, uses_of_matrix
from modelbuild.lsp.places import Span, name_span, span, span_at, span_of_string, span_of_target
from modelbuild.lsp.snapshot import WorkspaceSnapshot
from modelbuild.workspace.toml_tokens import KeyPath

_START = Span(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """A part of a file, by its path in the workspace."""

    path: str
    span: Span


def definition(snapshot: WorkspaceSnapshot, package: str, cursor: Cursor) -> DocumentPlace | None:
    """Return the place that the label, matrix, file, or `file.py:name` at a cursor refers to."""
    if cursor.kind != "value" or not cursor.text:
        return None
    own = snapshot.package(package)
    matrix = matrix_at(own, cursor)
    if own is not None and matrix is not None:
        return DocumentPlace(own.file, matrix_span(own, matrix))
    target = _target(snapshot, package, cursor.text) if _is_label(snapshot, cursor) else None
    if target is not None:
        return DocumentPlace(target.file, span_at(target.document.text, target.location()))
    file, _, name = cursor.text.partition(":")
    path = join(package, file)
    if not file or not snapshot.tree.is_file(path):
        return None
    return DocumentPlace(path, _definition_in(snapshot, path, name) if name else _START)


def references(snapshot: WorkspaceSnapshot, package: str, cursor: Cursor) -> list[DocumentPlace]:
    """Return the declaration of the target or matrix at a cursor, and every label or name of it in the workspace."""
    own = snapshot.package(package)
    matrix = matrix_at(own, cursor)
    if own is not None and matrix is not None:
        return [DocumentPlace(own.file, each) for each in uses_of_matrix(own, matrix)]
    if cursor.kind == "value" and cursor.path == ("name",):
        target = _declared_at(snapshot, package, cursor)
    else:
        target = _target(snapshot, package, cursor.text) if cursor.kind == "value" else None
    if target is None:
        return []
    found = [DocumentPlace(target.file, name_span(target))]
    for each in snapshot.packages():
        for other in each.targets.values():
            for path, text in _labels(other.attributes):
                if _resolved(text, each.name) == target.label:
                    found.append(
                        DocumentPlace(other.file, span_of_string(other.document.text, other.location(path), text))
                    )
    return list(dict.fromkeys(found))


def hover(snapshot: WorkspaceSnapshot, package: str, cursor: Cursor) -> str:
    """Return the description of the rule, attribute, matrix or label at a cursor as Markdown; '' for anything else."""
    if matrix := matrix_at(snapshot.package(package), cursor):
        return f"**{matrix.name}**, matrix: `{matrix_axes(matrix)}`"
    if cursor.kind == "header" and cursor.text in snapshot.rules.by_name:
        described = describe_rule(snapshot.rules.by_name[cursor.text])
        return f"**{cursor.text}**\n\n{described.attributes.about}\n\n```toml\n{described.example.strip()}\n```"
    if cursor.kind == "key":
        schema = snapshot.schemas.attribute(cursor.table, cursor.path)
        return _about(cursor.text, schema) if schema is not None else ""
    target = _target(snapshot, package, cursor.text) if _is_label(snapshot, cursor) else None
    return f"**{target.label}**, {target.rule} at {target.location()}" if target is not None else ""


def symbols(snapshot: WorkspaceSnapshot, package: str) -> list[tuple[str, str, Span, Span]]:
    """Return the name and the rule of each target of a package, the span of its table, and the span of its header."""
    found = snapshot.package(package)
    targets = found.targets.values() if found is not None else ()
    return [
        (each.label.name, each.rule, span_of_target(each), span_at(each.document.text, each.location()))
        for each in targets
    ]


def _about(name: str, schema: Mapping[str, Any]) -> str:
    about = describe_attribute(name, schema)
    default = f", default `{about.default}`" if about.default else ""
    return f"**{name}**: {about.type}{default}\n\n{about.about}"


def _is_label(snapshot: WorkspaceSnapshot, cursor: Cursor) -> bool:
    if cursor.kind != "value" or not cursor.quoted:
        return False
    formats = {schema.get("format") for schema in snapshot.schemas.at(cursor.table, cursor.path)}
    return "label" in formats or cursor.text.startswith(("//", ":"))


def _target(snapshot: WorkspaceSnapshot, package: str, text: str) -> Target | None:
    label = _resolved(text, package)
    return snapshot.target(label.package, label.name) if label is not None else None


def _resolved(text: str, package: str) -> Label | None:
    try:
        return Label.parse(text, package)
    except UsageError:
        return None


def _declared_at(snapshot: WorkspaceSnapshot, package: str, cursor: Cursor) -> Target | None:
    """Return the target whose name is at a cursor; for a matrix, its first target."""
    found = snapshot.package(package)
    if found is None:
        return None
    header = span(found.document.text, cursor.header, cursor.header).line
    return next((each for each in found.targets.values() if each.location().line == header + 1), None)


def _labels(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield the strings of a value that look like labels, each with its path."""
    if isinstance(value, str):
        if value.startswith(("//", ":")):
            yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _labels(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _labels(item, (*path, index))


def _definition_in(snapshot: WorkspaceSnapshot, path: str, name: str) -> Span:
    """Return the span of a class or function of a Python file."""
    try:
        text = (snapshot.workspace.root / path).read_text(errors="replace")
    except OSError:
        return _START
    match = re.search(rf"^(?:class|def|async def)[ \t]+({re.escape(name)})\b", text, re.MULTILINE)
    return span(text, *match.span(1)) if match is not None else _START
