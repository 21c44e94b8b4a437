"""Loads packages and targets on demand, each once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import TypeAlias

from modelbuild.errors import LoadingError, Location, ModelbuildError, UsageError, did_you_mean
from modelbuild.labels import Label, is_package_name
from modelbuild.loading.package import PACKAGE_FILE, Package, Target
from modelbuild.loading.parse import parse_package
from modelbuild.loading.sources import find_glob, find_source
from modelbuild.loading.tree import FolderStamp, SourceTree, join
from modelbuild.workspace.toml_document import Stamp, Where
from modelbuild.workspace.workspace import WORKSPACE_FILE, Workspace

Skip: TypeAlias = Callable[[str, LoadingError], None]
"""Called with the label that has an error, or with //package:all. May raise the error."""


def fail(label: str, error: LoadingError) -> None:
    """Raise the error."""
    raise error


class Loader:
    """The packages of a workspace. Not thread-safe.

    Every method raises LoadingError, located, for errors in a BUILD.toml. `at` returns the location of a reference;
    without it, the name comes from the command line, and a missing package or target is a UsageError. `tree` may
    contain files that are not saved. `repository` is the repository of the labels in messages. `extensions` are the
    names of extensions of the rules, which users may take for targets.
    """

    def __init__(
        self, workspace: Workspace, known_rules: Collection[str], tree: SourceTree | None = None, repository: str = ""
    ) -> None:
        self.workspace = workspace
        self.known_rules = known_rules
        self._repository = repository
        self._tree = tree or SourceTree(workspace.root)
        self._tree.files[WORKSPACE_FILE] = workspace.stamp
        self._packages: dict[str, Package] = {}
        self.extensions: Collection[str] = ()

    def package(self, name: str, at: Where | None = None) -> Package:
        """Return the package in a folder, by its path below the root."""
        found = self._packages.get(name)
        if found is None:
            found = self._packages[name] = self._load(name, at)
        return found

    def target(self, label: Label, at: Where | None = None) -> Target:
        """Return the target of a label."""
        package = self.package(label.package, at)
        target = package.targets.get(label.name)
        if target is None:
            hint = did_you_mean(label.name, package.targets) or self._elsewhere(label.name)
            if at is not None and label.name in self.extensions:
                hint = f'; expected ["{label.name}"], if this is meant to be no target'
            raise _missing(f"no target '{label.name}' in {self._repository}//{label.package}{hint}", at)
        return target

    def _elsewhere(self, name: str) -> str:
        """Return `; did you mean '//package:name'?` for the first package with a target of that name, or ''."""
        for package in sorted(filter(is_package_name, self._tree.packages())):
            with suppress(LoadingError):  # an error in another package does not matter here
                if name in self.package(package).targets:
                    return f"; did you mean '{Label(package, name, self._repository)}'?"
        return ""

    def packages_below(self, name: str, skip: Skip = fail) -> list[str]:
        """Return the packages in a folder and all folders below it, sorted; the folder itself need not be a package."""
        names = sorted(self._tree.packages(name)) if self._tree.is_folder(name) and not self._foreign(name) else []
        wrong = [found for found in names if not is_package_name(found)]
        for found in wrong:
            message = f"folder {found!r} can't be a package; expected letters, digits and any of _.+@-"
            skip(f"//{found}:all", LoadingError(message, Location(join(found, PACKAGE_FILE), 1, 1)))
        return [found for found in names if found not in wrong] if wrong else names

    def source(self, package: str, path: str, at: Where) -> str:
        """Return the path below the root of a file that is named relative to a package (see `find_source`)."""
        return find_source(self._tree, self.package(package), path, at)

    def glob(
        self, package: str, include: Sequence[str], exclude: Sequence[str], allow_empty: bool, at: Where
    ) -> tuple[str, ...]:
        """Return the paths below the root, sorted, of a package's files that match patterns (see `find_glob`)."""
        return find_glob(self._tree, self.package(package), include, exclude, allow_empty, at)

    def has_file(self, path: str) -> bool:
        """Return whether a path below the root is a regular file or a link to a regular file."""
        return self._tree.is_file(path)

    def files_read(self) -> Mapping[str, Stamp]:
        """Return the stamp of every file that loading read, by path below the root, from the time of reading."""
        return self._tree.files

    def folders_listed(self) -> Mapping[str, FolderStamp]:
        """Return the stamp of every folder whose listing mattered, by path below the root, from the time of listing."""
        return self._tree.folders

    def files_present(self) -> AbstractSet[str]:
        """Return every path below the root where the presence of a file, read or not, mattered."""
        return self._tree.present

    def files_absent(self) -> AbstractSet[str]:
        """Return every path below the root where the absence of a file mattered."""
        return self._tree.absent

    def _load(self, name: str, at: Where | None) -> Package:
        file = join(name, PACKAGE_FILE)
        owner = self._foreign(name)
        if owner is not None:
            raise _missing(f"//{name} is in another workspace, {owner}", at)
        if not self._tree.is_marked(name, PACKAGE_FILE):
            known = [f"{self._repository}//{other}" for other in self._tree.packages() if is_package_name(other)]
            label = f"{self._repository}//{name}"
            raise _missing(f"no package {label}: there is no {file}{did_you_mean(label, known)}", at)
        document, values = self._tree.read(file)
        return parse_package(document, values, name, self.known_rules)

    def _foreign(self, name: str) -> str | None:
        """Return the root folder of the other workspace that contains a folder, or None."""
        folder = ""
        for part in name.split("/") if name else ():
            folder = join(folder, part)
            if self._tree.is_marked(folder, WORKSPACE_FILE):
                return folder
        return None


def _missing(message: str, at: Where | None) -> ModelbuildError:
    return UsageError(message) if at is None else LoadingError(message, at())
