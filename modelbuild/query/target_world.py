"""The world of `query`: targets as BUILD files declare them, with every branch of their selects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from modelbuild.analysis.rules import Rules
from modelbuild.analysis.validate import validate
from modelbuild.api.attrs import Attrs
from modelbuild.errors import LoadingError
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.loading.package import Target
from modelbuild.loading.select import resolve_selects, select_labels
from modelbuild.query.package_world import Packages, file_location, target_labels
from modelbuild.query.world import SOURCE


class TargetWorld:
    """A World. A target's edges lead to its dependencies for any device, and to the devices that its selects name."""

    def __init__(self, loader: Loader, rules: Rules, current: str) -> None:
        self.packages = Packages(loader, rules, current)
        self._variants = cache(self._read)

    def find(self, pattern: str) -> list[str]:
        found = self.packages.matching(pattern)
        return [found] if isinstance(found, str) else [str(target.label) for target in found]

    def needs(self, node: str) -> Collection[str]:
        target = self.packages.target(node)
        if target is None:
            return ()
        found = {str(label): None for attrs in self._variants(target) for _, label in target_labels(target, attrs)}
        found.update((str(label), None) for label, _ in select_labels(target))
        found.update((label, None) for label in toolchain_labels(target))
        for label in found:
            self.packages.loader.target(Label.parse(label), target.location)
        for attrs in self._variants(target):
            found.update((file, None) for _, file in self.packages.files(target.label, attrs, target.location))
        return found

    def kind(self, node: str) -> str:
        target = self.packages.target(node)
        return f"{target.rule} rule" if target else SOURCE

    def label(self, node: str) -> str:
        return node

    def attributes(self, node: str) -> list[Mapping[str, Any]]:
        target = self.packages.target(node)
        if target is None:
            return []
        own = engine_attributes(target)
        return [{**attrs.model_dump(mode="json", by_alias=True), **own} for attrs in self._variants(target)]

    def labels(self, node: str, attribute: str) -> Collection[str]:
        target = self.packages.target(node)
        found: set[str] = set()
        for attrs in self._variants(target) if target else ():
            assert target is not None
            found.update(str(label) for path, label in target_labels(target, attrs) if path[0] == attribute)
            files = self.packages.files(target.label, attrs, target.location)
            found.update(file for path, file in files if path[0] == attribute)
        if target is not None and attribute == "toolchain":
            found.update(toolchain_labels(target))
        return found

    def build_files(self, package: str) -> list[str]:
        return self.packages.build_files(package)

    def location(self, node: str) -> str:
        target = self.packages.target(node)
        return str(target.location()) if target else file_location(node)

    def _read(self, target: Target) -> list[Attrs]:
        """Return the attributes for each device that a select names, and for no device."""
        devices = [None, *dict.fromkeys(label for label, _ in select_labels(target))]
        schema = self.packages.rules.by_name[target.rule].attrs
        found: list[Attrs] = []
        for device in devices:
            try:
                selected = resolve_selects(target, device)
            except LoadingError:
                if device is None and len(devices) > 1:  # a select without a default
                    continue
                raise
            attrs = validate(target.rule, target.label.name, schema, selected.attributes, selected.location)
            found += [] if attrs in found else [attrs]
        return found


def engine_attributes(target: Target) -> dict[str, Any]:
    """Return the attributes that every target has."""
    found: dict[str, Any] = {
        "name": target.label.name,
        "tags": list(target.tags),
        "visibility": list(target.visibility),
    }
    return {**found, "toolchain": target.toolchain} if target.toolchain else found


def toolchain_labels(target: Target) -> list[str]:
    """Return the label of the toolchain that a target names, if it is a target of the workspace."""
    return [target.toolchain] if target.toolchain.startswith("//") else []
