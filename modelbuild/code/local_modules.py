"""Find the origin of a module: an installed distribution that lists its file, or a local module. Only its content
identifies a local module: it is in an editable install, in a folder on PYTHONPATH, or copied next to installed
packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder, all_suffixes

from modelbuild.code.distributions import Distribution, Distributions
from modelbuild.code.interpreter import Interpreter
from modelbuild.code.package_finder import PackageFinder
from modelbuild.code.search_path import under
from modelbuild.errors import EnvironmentProblem
from modelbuild.paths import parents

_SUFFIXES = tuple(all_suffixes())


@dataclass(frozen=True, slots=True, order=True)
class LocalModule:
    """`name` is the import name, with a dot only after plain folders (without an __init__.py); `path` is the file, or
    the folder of a package."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Found:
    """The origin of a module: the distributions that it belongs to, and the module if it is local."""

    owners: tuple[str, ...] = ()
    local: LocalModule | None = None


class Modules:
    """Finds modules as a Python process without a current folder does.

    interpreter    the Python of that process; `distributions` are the distributions that it finds
    workspace      its root; files directly in that folder are sources to declare, not local modules
    keyed          names of top-level modules whose content is in keys anyway
    """

    def __init__(
        self, interpreter: Interpreter, distributions: Distributions, workspace: str, keyed: Collection[str]
    ) -> None:
        self._interpreter = interpreter
        self._distributions = distributions
        self._workspace = os.path.realpath(workspace)
        self._keyed = keyed
        self._found: dict[str, Found | None] = {}

    def find(self, name: str) -> Found | None:
        """Return the origin of the top-level module of an import name, or below plain folders, of the first package or
        module. None for a module that is missing, part of Python, or in keys anyway.

        Raises EnvironmentProblem for a module in an archive.
        """
        if self.is_excluded(name):
            return None
        top, *below = name.split(".")
        if top not in self._found:
            spec = self._spec(top)
            if spec is None or not spec.has_location:
                places = list(spec.submodule_search_locations or ()) if spec is not None else []
                return self._in_folders(top, places, below) if places else None
            self._found[top] = self._from(top, str(spec.origin), spec.submodule_search_locations is not None)
        return self._found[top]

    def is_excluded(self, name: str) -> bool:
        """Return whether a module is part of Python, or in keys anyway."""
        top = name.partition(".")[0]
        return top in self._interpreter.stdlib or top in self._keyed

    def is_local(self, name: str) -> bool:
        """Return whether there is a local module with this name."""
        spec = self._spec(name.partition(".")[0])
        if spec is None or not (spec.has_location or "." in name):
            return False
        found = self.find(name)
        return found is not None and found.local is not None

    def may_contain(self, path: str) -> bool:
        """Return whether a file, by its absolute path, can be part of a local module, imported or not."""
        real = os.path.realpath(path)
        for entry in map(os.path.realpath, self._distributions.path):
            first = real.removeprefix(f"{entry}/").partition("/")[0]
            if not under(real, entry) or entry == self._workspace or under(self._workspace, f"{entry}/{first}"):
                continue
            folders = [f"{entry}/{folder}" for folder in parents(real.removeprefix(f"{entry}/"))]
            if real.endswith(_SUFFIXES) or any(os.path.isfile(f"{folder}/__init__.py") for folder in folders):
                return True
        found = (self.find(name) for each in self._distributions.projects() for name in each.modules)
        return any(each is not None and each.local is not None and under(real, each.local.path) for each in found)

    def is_there(self, top: str) -> bool:
        """Return whether there is a top-level module of any origin."""
        return self._spec(top) is not None

    def _spec(self, top: str) -> ModuleSpec | None:
        if self._interpreter.toolchain:  # the finders of this process find packages installed with modelbuild
            return self._interpreter.find_module(top)
        for finder in sys.meta_path:
            if finder in (BuiltinImporter, FrozenImporter) or isinstance(finder, PackageFinder):
                continue
            spec = None
            if finder is PathFinder:
                spec = PathFinder.find_spec(top, self._distributions.path)
            else:
                with suppress(Exception):  # a finder of a third party, such as an editable install's
                    spec = finder.find_spec(top, None)
            if spec is not None:
                return spec
        return None

    def _in_folders(self, name: str, folders: Sequence[str], below: Sequence[str]) -> Found:
        """Return the origin of a plain folder, or of several plain folders with the same name."""
        if below:
            inner = f"{name}.{below[0]}"
            for folder in folders:
                for file in _files(f"{folder}/{below[0]}"):
                    if os.path.isfile(file):
                        return self._from(inner, file, os.path.basename(file).startswith("__init__.")) or Found()
            deeper = [f"{folder}/{below[0]}" for folder in folders if os.path.isdir(f"{folder}/{below[0]}")]
            if deeper:
                return self._in_folders(inner, deeper, below[1:])
        relative = name.replace(".", "/") + "/"
        bases = [folder.removesuffix(f"/{relative[:-1]}") for folder in folders]
        return Found(tuple(d.name for base in bases for d in self._recording(base, relative)))

    def _from(self, name: str, origin: str, is_package: bool) -> Found | None:
        if not os.path.isfile(origin):
            raise EnvironmentProblem(f"module {name} is in {origin}, an archive; expected it unpacked, or installed")
        path = os.path.dirname(origin) if is_package else origin
        base = path
        for _ in name.split("."):
            base = os.path.dirname(base)
        owners = self._recording(base, os.path.relpath(origin, base))
        if owners:
            return Found(tuple(owner.name for owner in owners))
        real = os.path.realpath(path)
        if under(self._workspace, real) or os.path.dirname(real) == self._workspace:
            return None
        return Found(self._owner(name, base, real), LocalModule(name, path))

    def _recording(self, folder: str, path: str) -> list[Distribution]:
        """Return the distributions in a folder with a file (or, for a folder, any file below it) in their RECORD. Most
        are named like their module."""
        named = self._distributions.find(path.partition("/")[0].replace("_", "-").lower())
        if named is not None and named.folder == folder and named.records(path) and not path.endswith("/"):
            return [named]
        return [d for d in self._distributions.in_folder(folder) if d.records(path)]

    def _owner(self, name: str, base: str, path: str) -> tuple[str, ...]:
        """Return the distribution of a local module, or None: an editable distribution (the innermost of nested
        projects), or a distribution next to the module without a RECORD."""
        projects = [d for d in self._distributions.projects() if under(path, os.path.realpath(str(d.project)))]
        inner = sorted(projects, key=lambda d: len(os.path.realpath(str(d.project))))[-1:]
        beside = (d for d in self._distributions.in_folder(base) if not d.has_record and name in d.modules)
        return tuple(d.name for d in inner or list(beside)[:1])

    def shadows(self, name: str) -> bool:
        """Return whether a local module with this name hides a distribution's module."""
        paths = [os.path.relpath(file, "/") for file in _files(f"/{name.replace('.', '/')}")]
        return any(each.records(path) for each in self._distributions.all() for path in paths)


def _files(base: str) -> Iterable[str]:
    """Yield the possible files of a module, given its path without a suffix; a package comes first."""
    yield from (f"{base}/__init__{suffix}" for suffix in _SUFFIXES)
    yield from (f"{base}{suffix}" for suffix in _SUFFIXES)
