"""Completion: rules, attributes, values, labels and files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from modelbuild.analysis.json_schema import OTHERS
from modelbuild.analysis.rule_help import describe_attribute, summary
from modelbuild.loading.package import ENGINE_ATTRIBUTES, Package
from modelbuild.loading.visibility import visible
from modelbuild.lsp.cursor import Cursor
from modelbuild.lsp.matrices import matrix_axes
from modelbuild.lsp.snapshot import WorkspaceSnapshot
from modelbuild.workspace.toml_values import toml_value

Kind: TypeAlias = Literal["rule", "attribute", "value", "label", "file"]
# Labels of one answer, and seconds in which packages are read for it.
_MOST = 1000
_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Choice:
    """A text that may be at the cursor, which replaces the word or string there.

    insert  the text to insert: a value in quotes unless the cursor is in a string
    detail  a line shown next to it; `about` is a description shown below
    """

    label: str
    insert: str
    kind: Kind
    detail: str = ""
    about: str = ""
    first: bool = False


class Choices(list[Choice]):
    """Choices; `partial` if there are more, for another text before the cursor or after a while."""

    partial = False


def complete(snapshot: WorkspaceSnapshot, package: str, cursor: Cursor) -> Choices:
    """Return the choices at a cursor in a package's BUILD file. The text before the cursor matters only if there are
    too many."""
    limits = _Limits(cursor.before if cursor.quoted else "")
    found = Choices(_choices(snapshot, package, cursor, limits))
    found.partial = limits.reached
    return found


def _choices(snapshot: WorkspaceSnapshot, package: str, cursor: Cursor, limits: _Limits) -> Iterable[Choice]:
    match cursor.kind:
        case "header":
            return _rules(snapshot)
        case "key":
            return _attributes(snapshot, cursor)
        case "value":
            return _values(snapshot, package, cursor, limits)
    return []


class _Limits:
    """The limits of one request, so that an editor gets an answer in a workspace of any size. `before` is the text
    before the cursor, `reached` whether choices are left out."""

    def __init__(self, before: str) -> None:
        self.before = before
        self.reached = False
        self._end = time.monotonic() + _SECONDS

    def packages(self, snapshot: WorkspaceSnapshot, own: str) -> list[Package]:
        """Return the packages that load in time, the file's own first."""
        near = snapshot.package(own)
        found = [] if near is None else [near]
        for each in snapshot.packages(self.before.removeprefix("//").partition(":")[0]):
            if each.name != own:
                found.append(each)
            if time.monotonic() > self._end:
                self.reached = True
                break
        return found


def _rules(snapshot: WorkspaceSnapshot) -> list[Choice]:
    rules = [Choice(name, name, "rule", summary(rule)) for name, rule in sorted(snapshot.rules.by_name.items())]
    return [*rules, *(Choice(name, name, "rule", schema["description"]) for name, schema in OTHERS.items())]


def _attributes(snapshot: WorkspaceSnapshot, cursor: Cursor) -> Iterator[Choice]:
    """Yield the attributes that the table does not have yet, required attributes first."""
    for schema in snapshot.schemas.at(cursor.table, cursor.path[:-1]):
        required = {*schema.get("required", ()), *(("name",) if len(cursor.path) == 1 else ())}
        for name, each in schema.get("properties", {}).items():
            if name not in cursor.keys:
                about = describe_attribute(name, each, name in required)
                first = name in required or (len(cursor.path) > 1 or name not in ENGINE_ATTRIBUTES)
                yield Choice(name, f"{name} = ", "attribute", about.type, about.about, first)


def _values(snapshot: WorkspaceSnapshot, package: str, cursor: Cursor, limits: _Limits) -> Iterator[Choice]:
    """Yield the words, labels and files that a value may be."""
    seen: set[str] = set()
    for schema in snapshot.schemas.at(cursor.table, cursor.path):
        if schema.get("type") == "array" and not cursor.quoted and isinstance(schema.get("items"), dict):
            continue  # the cursor is before the bracket
        for choice in _of_schema(snapshot, package, schema, limits):
            if choice.label not in seen:
                seen.add(choice.label)
                quoted = choice.kind != "value" or choice.insert.startswith('"')
                if quoted == cursor.quoted or not cursor.quoted:
                    insert = choice.label if cursor.quoted else choice.insert
                    yield Choice(choice.label, insert, choice.kind, choice.detail, choice.about, choice.first)


def _of_schema(snapshot: WorkspaceSnapshot, package: str, schema: dict[str, Any], limits: _Limits) -> Iterator[Choice]:
    words = schema.get("enum", [schema["const"]] if "const" in schema else [])
    for word in words:
        yield Choice(str(word), toml_value(word), "value")
    if schema.get("type") == "boolean":
        yield from (Choice(word, word, "value") for word in ("true", "false"))
    if schema.get("format") == "matrix" and (own := snapshot.package(package)) is not None:
        yield from (Choice(name, toml_value(name), "value", matrix_axes(each)) for name, each in own.matrices.items())
    if schema.get("format") in ("label", "file"):
        yield from _labels(snapshot, package, schema.get("rules"), limits)
    if schema.get("format") == "file":
        yield from (Choice(name, toml_value(name), "file") for name in snapshot.files(package))


def _labels(snapshot: WorkspaceSnapshot, package: str, rules: list[str] | None, limits: _Limits) -> Iterator[Choice]:
    """Yield the labels of visible targets of some rules, in the short form for targets of the package itself. Of too
    many, only labels with the text before the cursor, and the first of these."""
    packages = limits.packages(snapshot, package)
    before = limits.before if sum(len(each.targets) for each in packages) > _MOST else ""
    made = 0
    for each in packages:
        own = each.name == package
        start = ":" if own else f"//{each.name}:"
        for name, target in each.targets.items():
            text = start + name
            if before not in text or (rules and target.rule not in rules) or not visible(target, package):
                continue
            made += 1
            if made > _MOST:
                limits.reached = True
                return
            yield Choice(text, toml_value(text), "label", target.rule, first=own)
    limits.reached |= bool(before)
