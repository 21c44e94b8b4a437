"""The world of `cquery`: targets as built for a device, with selects resolved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget, Node
from modelbuild.api.attrs import Path
from modelbuild.labels import Label
from modelbuild.loading.package import Target
from modelbuild.query.package_world import Packages, file_location, target_labels
from modelbuild.query.target_world import engine_attributes, toolchain_labels
from modelbuild.query.world import SOURCE


class ConfiguredWorld:
    """A World. Nodes are `//models:detector`, or `//models:detector (//:orin)` if a device was given or comes from a
    depending target, and makes a difference.

    devices   the devices to configure for, each separately; none leaves the choice to the targets
    """

    def __init__(self, analyzer: Analyzer, current: str, devices: Sequence[Label]) -> None:
        self.analyzer = analyzer
        self.packages = Packages(analyzer.loader, analyzer.rules, current)
        self._devices: Sequence[Label | None] = devices or (None,)
        self._nodes: dict[str, Node] = {}

    def configured(self, node: str) -> ConfiguredTarget | None:
        """Return the target of a node; None for a source file."""
        known = self._nodes.get(node)
        return None if known is None else self.analyzer.targets[known]

    def find(self, pattern: str) -> list[str]:
        found = self.packages.matching(pattern)
        if isinstance(found, str):
            return [found]
        return [self._node(self.analyzer.analyze(t.label, d).node) for d in self._devices for t in found]

    def _node(self, node: Node) -> str:
        name = self.analyzer.targets[node].id
        self._nodes[name] = node
        return name

    def needs(self, node: str) -> Collection[str]:
        target = self.configured(node)
        if target is None:
            return ()
        found = {self._node(needed): None for needed in self.analyzer.dependencies[target.node]}
        found.update((file, None) for _, file in self._files(target))
        return found

    def _files(self, target: ConfiguredTarget) -> list[tuple[Path, str]]:
        declared = self._declared(target)
        return list(self.packages.files(target.node.label, target.attrs, declared.location))

    def _declared(self, target: ConfiguredTarget) -> Target:
        return self.analyzer.loader.target(target.node.label)

    def kind(self, node: str) -> str:
        target = self.configured(node)
        return f"{target.rule} rule" if target else SOURCE

    def label(self, node: str) -> str:
        target = self.configured(node)
        return str(target.node.label) if target else node

    def attributes(self, node: str) -> list[Mapping[str, Any]]:
        target = self.configured(node)
        if target is None:
            return []
        own = engine_attributes(self._declared(target))
        return [{**target.attrs.model_dump(mode="json", by_alias=True), **own}]

    def labels(self, node: str, attribute: str) -> Collection[str]:
        target = self.configured(node)
        if target is None:
            return ()
        named = {label for path, label in target_labels(self._declared(target), target.attrs) if path[0] == attribute}
        if attribute == "toolchain":
            named.update(map(Label.parse, toolchain_labels(self._declared(target))))
        found = {self._node(needed) for needed in self.analyzer.dependencies[target.node] if needed.label in named}
        return found | {file for path, file in self._files(target) if path[0] == attribute}

    def build_files(self, package: str) -> list[str]:
        return self.packages.build_files(package)

    def location(self, node: str) -> str:
        target = self.configured(node)
        return str(self._declared(target).location()) if target else file_location(node)
