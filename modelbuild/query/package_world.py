"""Packages, their targets and source files as nodes: the common part of both worlds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from modelbuild.analysis.entry_files import EntryFiles
from modelbuild.analysis.rules import Rules
from modelbuild.api.attrs import Attrs, Dep, Entry, Glob, Path, Source, references
from modelbuild.errors import Location, ModelbuildError, UsageError
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.loading.package import Target
from modelbuild.loading.patterns import expand_patterns
from modelbuild.loading.references import parse_label
from modelbuild.query.world import package_of
from modelbuild.workspace.toml_document import Where
from modelbuild.workspace.workspace import WORKSPACE_FILE


class Packages:
    """The packages of a workspace, for a World. `current` is the package that relative patterns start from."""

    def __init__(self, loader: Loader, rules: Rules, current: str) -> None:
        self.loader = loader
        self.rules = rules
        self.current = current
        self._entries = EntryFiles(loader)

    def matching(self, pattern: str) -> Sequence[Target] | str:
        """Return the targets that match a pattern, including those tagged manual; for a source file, its node."""
        try:
            return expand_patterns(self.loader, [pattern], self.current, manual=True)
        except ModelbuildError:
            source = self._source(pattern)
            if source is None:
                raise
            return source

    def _source(self, pattern: str) -> str | None:
        text = pattern if pattern.startswith("//") else f"//{self.current}:{pattern.removeprefix(':')}"
        package, colon, path = text.removeprefix("//").partition(":")
        try:
            return self.node_of_file(package, self.loader.source(package, path, _nowhere)) if colon else None
        except ModelbuildError:
            return None

    def members(self, package: str) -> list[str]:
        return [str(target.label) for target in self.loader.package(package).targets.values()]

    def build_files(self, package: str) -> list[str]:
        loaded = self.loader.package(package)
        files = [f"//{package}:BUILD.toml", f"//:{WORKSPACE_FILE}"]
        names = {self.rules.by_name[target.rule].package for target in loaded.targets.values()}
        root = self.loader.workspace.root
        for name in sorted(names):
            folder = self.rules.packages[name]
            if folder.is_relative_to(root):
                below = folder.relative_to(root).as_posix()
                files += [f"//{below}:{file.name}" for file in sorted(folder.glob("*.py"))]
        return files

    def node_of_file(self, package: str, path: str) -> str:
        """Return the node of a source file, given its path below the root."""
        return f"//{package}:{path.removeprefix(package).lstrip('/')}"

    def files(self, label: Label, attrs: Attrs, at: Where) -> Iterator[tuple[Path, str]]:
        """Yield the source files that attributes name, each with its place in the attributes."""
        for path, reference in references(attrs):
            if isinstance(reference, Glob):
                found = self.loader.glob(label.package, reference.glob, reference.exclude, reference.allow_empty, at)
                yield from ((path, self.node_of_file(label.package, file)) for file in found)
            elif isinstance(reference, Entry):
                entry_files = self._entries.find(label.package, reference.file, at)
                yield from ((path, self.node_of_file(label.package, file)) for file in entry_files)
            elif isinstance(reference, Source) and not reference.is_label:
                yield path, self.node_of_file(label.package, self.loader.source(label.package, reference, at))

    def target(self, node: str) -> Target | None:
        """Return the target of a label; None for a source file."""
        package, _, name = node.removeprefix("//").partition(":")
        return self.loader.package(package).targets.get(name)


def target_labels(target: Target, attrs: Attrs) -> Iterator[tuple[Path, Label]]:
    """Yield the labels of targets that attributes name, each with its place in the attributes."""
    for path, reference in references(attrs):
        if isinstance(reference, Dep) or (isinstance(reference, Source) and reference.is_label):
            yield path, parse_label(reference, target.label.package, partial(target.location, path))


def file_location(node: str) -> str:
    """Return a source file's path below the root."""
    package = package_of(node)
    return f"{package}/{node.partition(':')[2]}".lstrip("/")


def _nowhere() -> Location:
    raise UsageError("no such file")
