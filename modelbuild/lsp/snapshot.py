"""The workspace as an editor sees it: files on the disk, and the unsaved text of open files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import Rules, load_rules
from modelbuild.errors import LoadingError, ModelbuildError
from modelbuild.loading.loader import Loader
from modelbuild.loading.package import PACKAGE_FILE, Package, Target
from modelbuild.loading.tree import SourceTree, join
from modelbuild.lsp.schema import Schemas
from modelbuild.workspace.toml_document import Document, Stamp, parse_document, read_document
from modelbuild.workspace.workspace import Workspace, load_workspace


@dataclass(slots=True)
class Memory:
    """State shared by the snapshots of a workspace: documents by path, each with its stamp; the last package that
    loaded from each BUILD file; and the rules of the rule packages in MODELBUILD.toml, with their schemas. A rule
    package is loaded once: an edited one needs a new server."""

    documents: dict[str, tuple[Stamp, Document, dict[str, Any]]] = field(default_factory=dict)
    packages: dict[str, Package] = field(default_factory=dict)
    rules: dict[tuple[str, ...], tuple[Rules, Schemas]] = field(default_factory=dict)
    named: tuple[str, ...] = ()


class EditedTree(SourceTree):
    """The files of a workspace, with the texts of open files instead of the texts on the disk."""

    def __init__(self, root: Path, texts: Mapping[str, str], memory: Memory) -> None:
        super().__init__(root)
        self._texts = texts
        self._documents = memory.documents

    def read(self, path: str) -> tuple[Document, dict[str, Any]]:
        text = self._texts.get(path)
        stamp = self._stamp(path) if text is None else Stamp(len(text), hash(text), 0)
        known = self._documents.get(path)
        if known is None or known[0] != stamp or stamp is None:
            if text is None:
                document, values, stamp = read_document(self.root, path)
            else:
                assert stamp is not None
                document, values = parse_document(path, text.encode(errors="replace"))
            known = self._documents[path] = (stamp, document, values)
        self.files[path] = known[0]
        return known[1], known[2]

    def _stamp(self, path: str) -> Stamp | None:
        try:
            return Stamp.of((self.root / path).stat())
        except OSError:
            return None

    def is_file(self, path: str) -> bool:
        return path in self._texts or super().is_file(path)


class WorkspaceSnapshot:
    """A workspace at one time. Raises LoadingError for an error in MODELBUILD.toml or a rule package.

    texts  the texts of open files, by their paths in the workspace
    """

    def __init__(self, root: Path, texts: Mapping[str, str], memory: Memory) -> None:
        self.workspace: Workspace = load_workspace(root)
        named = tuple(self.workspace.config.rules)
        if named not in memory.rules:
            rules = load_rules(root, named, self.workspace.rule_locations())
            memory.rules[named] = rules, Schemas(rules.by_name)
        if memory.named != named:
            memory.named = named
            memory.packages.clear()
        self.rules, self.schemas = memory.rules[named]
        self.memory = memory
        self.texts = texts
        self.tree = EditedTree(self.workspace.root, texts, memory)
        self.loader = Loader(self.workspace, self.rules.by_name, self.tree)

    def analyzer(self) -> Analyzer:
        return Analyzer(self.loader, self.rules, self.workspace.config.default_device)

    def package(self, name: str) -> Package | None:
        """Return a package as edited. If that does not load, such as while a user types, return it as it last loaded,
        or as saved."""
        with suppress(ModelbuildError):
            known = self.memory.packages.get(name)
            if known is not None and known.document is self.tree.read(build_file(name))[0]:
                return known  # parsed for an earlier snapshot
            found = self.memory.packages[name] = self.loader.package(name)
            return found
        if name not in self.memory.packages and build_file(name) in self.texts:
            with suppress(ModelbuildError):
                self.memory.packages[name] = Loader(self.workspace, self.rules.by_name).package(name)
        return self.memory.packages.get(name)

    @cached_property
    def _names(self) -> list[str]:
        return self.loader.packages_below("", skip=_ignore)

    def packages(self, first: str = "") -> Iterator[Package]:
        """Yield all packages that have loaded at least once; first those whose names begin with `first`."""
        for name in sorted(self._names, key=lambda name: not name.startswith(first)):
            package = self.package(name)
            if package is not None:
                yield package

    def files(self, package: str) -> Collection[str]:
        """Return the visible files of a package, relative to it."""
        try:
            return [name for name in self.tree.package_files(package) if name != PACKAGE_FILE]
        except ModelbuildError:
            return ()

    def target(self, package: str, name: str) -> Target | None:
        found = self.package(package)
        return found.targets.get(name) if found is not None else None


def package_of(path: str) -> str:
    """Return the package of a BUILD file's path."""
    return path.removesuffix(PACKAGE_FILE).rstrip("/")


def build_file(package: str) -> str:
    """Return the path of a package's BUILD file."""
    return join(package, PACKAGE_FILE)


def _ignore(label: str, error: LoadingError) -> None:
    """Other packages may have errors."""
