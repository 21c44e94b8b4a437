"""Parse a BUILD.toml into a package: the engine's own attributes are removed from each target and checked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from modelbuild.actions import INSTALLED
from modelbuild.errors import LoadingError, UsageError, did_you_mean
from modelbuild.labels import Label, is_target_name
from modelbuild.loading.matrix import MATRIX, Matrix, matrix_of, read_matrices
from modelbuild.loading.matrix_expansion import expand_matrix
from modelbuild.loading.package import (
    ENGINE_ATTRIBUTES,
    OTHER_TABLES,
    PACKAGE_TABLE,
    Package,
    Target,
)
from modelbuild.loading.visibility import PRIVATE, PUBLIC, parse_visibility
from modelbuild.paths import MAX_NAME
from modelbuild.workspace.toml_document import Document, show
from modelbuild.workspace.toml_table import Table
from modelbuild.workspace.toml_tokens import KeyPath

# Names with another meaning in a label.
RESERVED = ("all", "__pkg__", "__subpackages__")


def parse_package(document: Document, values: Mapping[str, Any], name: str, known_rules: Collection[str]) -> Package:
    """Return the package `name` that a BUILD.toml declares. Raises LoadingError for the first error in it. Does not
    check a rule's own attributes."""
    top = Table(document, (), values)
    table = top.table(PACKAGE_TABLE) or Table(document, (PACKAGE_TABLE,), {})
    default = _visibility(table, "default_visibility", name, (PRIVATE,))
    table.finish()
    declared = values.get(MATRIX, [])
    _check_tables(document, MATRIX, declared)
    matrices = read_matrices(document, declared)
    targets: dict[str, Target] = {}
    for rule, declarations in values.items():
        if rule in OTHER_TABLES:
            continue
        if rule not in known_rules:
            raise document.error((rule,), f"no rule {rule!r}{did_you_mean(rule, [*known_rules, *OTHER_TABLES])}")
        _check_tables(document, rule, declarations)
        for index, declaration in enumerate(declarations):
            for target in _declared(document, (rule, index), declaration, name, default, matrices):
                other = targets.setdefault(target.label.name, target)
                if other is not target:
                    message = f"name '{target.label.name}' is taken by the {other.rule} at {other.location()}"
                    raise LoadingError(message, target.location(("name",)))
    return Package(name, document, targets, default, matrices)


def _check_tables(document: Document, rule: str, declarations: object) -> None:
    if isinstance(declarations, dict):
        raise document.error((rule,), f"expected [[{rule}]], an array of tables, got [{rule}]")
    if not isinstance(declarations, list):
        raise document.error((rule,), f"expected targets, [[{rule}]], got {show(declarations)}")
    for index, item in enumerate(declarations):
        if not isinstance(item, dict):
            raise document.error((rule, index), f"expected a table in '{rule}', got {show(item)}")


def _declared(
    document: Document,
    path: KeyPath,
    declaration: Mapping[str, Any],
    package: str,
    default: tuple[str, ...],
    matrices: Mapping[str, Matrix],
) -> Iterator[Target]:
    """Yield the targets of the declaration at `path`: one, or one for each combination of its matrix."""
    name = declaration.get("name")
    if name is None:
        raise document.error(path, f'{path[0]} without a name; expected name = "..."')
    if not isinstance(name, str):
        raise document.error((*path, "name"), f"'name': expected a string, got {show(name)}")
    variants: Sequence[Mapping[str, Any]] = (declaration,)
    if MATRIX in declaration:
        variants = expand_matrix(document, path, declaration, matrix_of(document, path, declaration, matrices))
    for values in variants:
        yield _target(document, path, values, package, default)


def _target(
    document: Document, path: KeyPath, values: Mapping[str, Any], package: str, default: tuple[str, ...]
) -> Target:
    name = values["name"]
    if not is_target_name(name):
        expected = "expected letters, digits and any of _.+@=-" + f", at most {MAX_NAME}" * (len(name) > MAX_NAME)
        raise document.error((*path, "name"), f"{show(name)} is not a name; {expected}")
    if name in RESERVED:
        raise document.error((*path, "name"), f"{show(name)} is reserved in labels; choose another name")
    visibility = default
    tags: tuple[str, ...] = ()
    timeout = None
    toolchain = ""
    if not values.keys().isdisjoint(("visibility", "tags", "toolchain", "action_timeout")):
        table = Table(document, path, values)
        visibility = _visibility(table, "visibility", package, default)
        tags = table.strings("tags") or ()
        toolchain = _toolchain(table, package)
        timeout = table.duration("action_timeout")
    attributes = {key: value for key, value in values.items() if key not in ENGINE_ATTRIBUTES}
    return Target(Label(package, name), str(path[0]), attributes, visibility, tags, document, path, timeout, toolchain)


def _visibility(table: Table, key: str, package: str, default: tuple[str, ...]) -> tuple[str, ...]:
    written = table.strings(key)
    if written is None:
        return default
    entries: list[str] = []
    for index, text in enumerate(written):
        try:
            entries.append(parse_visibility(text, package))
        except ValueError as error:
            raise table.error(f"'{key}': {error}, got {show(text)}", key, index) from None
        if len(written) > 1 and text in (PUBLIC, PRIVATE):
            raise table.error(f"'{key}': '{text}' excludes other entries", key, index)
    return tuple(entries)


def _toolchain(table: Table, package: str) -> str:
    text = table.string("toolchain", f"a label, or '{INSTALLED}'")
    if text is None or text == INSTALLED:
        return text or ""
    try:
        return str(Label.parse_toolchain(text, package))
    except UsageError as error:
        raise table.error(f"'toolchain': {error}", "toolchain") from None
