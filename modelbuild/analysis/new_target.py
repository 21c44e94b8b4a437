"""A new target of a rule, from the rule's example, with labels and files of the workspace."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli

from modelbuild.analysis.json_schema import attribute_schemas
from modelbuild.analysis.minimal_target import minimal_target
from modelbuild.api.rule import Rule
from modelbuild.errors import LoadingError
from modelbuild.loading.loader import Loader
from modelbuild.loading.package import PACKAGE_FILE
from modelbuild.loading.visibility import visible
from modelbuild.workspace.toml_values import toml_value

_FILE = re.compile(r"(?P<file>[\w./-]+\.\w+)(?::(?P<name>[A-Za-z_]\w*))?\Z")
PLACEHOLDER = "# placeholder"


@dataclass(frozen=True, slots=True)
class NewTarget:
    """A target as TOML, its attributes with values from the workspace, and its attributes to fill in."""

    text: str
    found: Mapping[str, str]
    placeholders: tuple[str, ...]


def draft_target(rule: Rule, name: str, package: str, loader: Loader) -> NewTarget:
    """Return a target for a package. A label names a visible target of the rule that the attribute expects. A file is
    the package's only file with the example's suffix. Other values come from the example."""
    (example,) = tomli.loads(rule.example or minimal_target(rule))[rule.name]
    properties = attribute_schemas({rule.name: rule})[0][rule.name].get("properties", {})
    labels = _Labels(package, loader)
    folder = loader.workspace.root / package
    lines = [f"[[{rule.name}]]", f"name = {toml_value(name)}"]
    found: dict[str, str] = {}
    placeholders = []
    for attribute, value in example.items():
        if attribute == "name":
            continue
        rules = next(_rules(properties.get(attribute, {})), None)
        own = labels.fill(value, rules) if rules else _fill_files(value, folder)
        if own is None:
            placeholders.append(attribute)
            lines.append(f"{attribute} = {toml_value(value)}  {PLACEHOLDER}")
        else:
            found[attribute] = toml_value(own)
            lines.append(f"{attribute} = {toml_value(own)}")
    return NewTarget("\n".join(lines) + "\n", found, tuple(placeholders))


def _rules(schema: Any) -> Iterator[list[str]]:
    """Yield the rules that the labels of an attribute may refer to."""
    if isinstance(schema, dict):
        if "rules" in schema:
            yield schema["rules"]
        for each in schema.values():
            yield from _rules(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _rules(each)


class _Labels:
    """Finds targets that a package may refer to, the package's own targets first."""

    def __init__(self, package: str, loader: Loader) -> None:
        self._package = package
        self._loader = loader

    def fill(self, value: Any, rules: list[str]) -> Any:
        """Return the value with a label of the workspace instead of the example's. If the workspace has no such label,
        return None for a value that contains labels, and any other value unchanged."""
        label = next(self._matching(rules), None)
        labels = value if isinstance(value, list) else [value]
        if not all(isinstance(each, str) and each.startswith((":", "//")) for each in labels):
            return label or value
        return [label] if label and isinstance(value, list) else label

    def _matching(self, rules: list[str]) -> Iterator[str]:
        others = self._loader.packages_below("", skip=lambda label, error: None)
        for name in sorted(others, key=lambda other: other != self._package):
            with suppress(LoadingError):  # an error in another package does not matter here
                for target in self._loader.package(name).targets.values():
                    if target.rule in rules and visible(target, self._package):
                        yield f":{target.label.name}" if name == self._package else str(target.label)


def _fill_files(value: Any, folder: Path) -> Any:
    """Return the value with the names of the folder's files; None if a name in it has no counterpart, or if it contains
    no file name."""
    if isinstance(value, list):
        filled = [_fill_files(each, folder) for each in value]
        return filled if filled and None not in filled else None
    match = _FILE.match(value) if isinstance(value, str) else None
    if match is None:
        return None
    file = _only_file(folder, Path(match["file"]).suffix)
    if file is None or match["name"] is None:
        return file
    entry = _only_class(folder / file)
    return None if entry is None else f"{file}:{entry}"


def _only_file(folder: Path, suffix: str) -> str | None:
    names = os.listdir(folder) if folder.is_dir() else []
    matching = [name for name in names if name.endswith(suffix) and name != PACKAGE_FILE and (folder / name).is_file()]
    return matching[0] if len(matching) == 1 else None


def _only_class(file: Path) -> str | None:
    """Return the name of the only class at the top level of a Python file; None if there is no class, or several."""
    with suppress(OSError, SyntaxError, ValueError, RecursionError):
        classes = [node.name for node in ast.parse(file.read_bytes()).body if isinstance(node, ast.ClassDef)]
        return classes[0] if len(classes) == 1 else None
    return None
