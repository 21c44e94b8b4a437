"""Find the installed modules in an action's key alone. Python in a worker finds no other installed module, as if its
distribution were not installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from modelbuild.code.distributions import Distribution, Distributions, canonical


@dataclass(frozen=True, slots=True)
class KeyedModules:
    """The modules of some distributions, as far as the states of these distributions contain them.

    names     canonical names of the distributions
    packages  their folders with an __init__.py; each module in such a folder is in a key
    files     their modules in other folders
    plain     those folders, and the folders around
    """

    names: frozenset[str]
    packages: frozenset[str]
    files: frozenset[str]
    plain: frozenset[str]

    def contain(self, spec: ModuleSpec) -> bool:
        """Return whether one of them is a module with a file, or is in a folder without an __init__.py."""
        if spec.origin is not None:
            return os.path.dirname(spec.origin) in self.packages or spec.origin in self.files
        places = spec.submodule_search_locations or ()
        return any(place in self.plain or os.path.dirname(place) in self.packages for place in places)


class InstalledModules:
    """The modules of installed distributions. Each RECORD is read once.

    folders  the folders that Python imports from
    """

    def __init__(self, folders: Iterable[str]) -> None:
        there = [folder for folder in folders if os.path.isdir(folder)]
        self.folders = frozenset(each for each in there if any(map(_is_metadata, os.listdir(each))))
        self._distributions = Distributions(there)
        self._known: dict[frozenset[str], KeyedModules] = {}
        self._single: dict[str, KeyedModules] = {}

    def of(self, names: Iterable[str]) -> KeyedModules:
        """Return the modules of distributions, by canonical names."""
        asked = frozenset(names)
        if asked not in self._known:
            parts = [self._of_one(name) for name in asked]
            self._known[asked] = KeyedModules(
                asked,
                frozenset().union(*(each.packages for each in parts)),
                frozenset().union(*(each.files for each in parts)),
                frozenset().union(*(each.plain for each in parts)),
            )
        return self._known[asked]

    def _of_one(self, name: str) -> KeyedModules:
        if name not in self._single:
            found = self._distributions.find(name)
            self._single[name] = _modules(name, found if found is not None and found.has_record else None)
        return self._single[name]


class KeyedFinder:
    """Takes the place of PathFinder, for modules and for the metadata of distributions. Of installed distributions, it
    finds those in `keyed` alone."""

    def __init__(self, installed: InstalledModules, keyed: KeyedModules) -> None:
        self._installed = installed
        self._inside = tuple(f"{folder.rstrip('/')}/" for folder in installed.folders)
        self.keyed = keyed
        self._found: list[ModuleSpec] = []
        self._hidden: list[ModuleSpec] = []
        self._named: set[str] = set()

    def install(self) -> None:
        """Install the finder until the process ends."""
        sys.meta_path[sys.meta_path.index(PathFinder)] = self

    def of(self, names: Iterable[str]) -> KeyedModules:
        """Return the modules of distributions, by canonical names."""
        return self._installed.of(names)

    def fits(self, keyed: KeyedModules) -> bool:
        """Return whether everything that was looked for would be found, or not found, in these distributions too."""
        return (
            self._named & keyed.names == self._named & self.keyed.names
            and all(map(keyed.contain, self._found))
            and not any(map(keyed.contain, self._hidden))
        )

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module (PEP 451)."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and self.keyed.contain(spec):
            if path is None or self.keyed.packages.isdisjoint(path):  # other modules are where their package is
                self._found.append(spec)
            return spec
        if spec is None or not self._is_installed(spec):
            return spec
        self._hidden.append(spec)
        return None

    def find_distributions(self, context: Any) -> Iterator[Any]:
        """Find the metadata of distributions, for importlib.metadata."""
        elsewhere = [folder for folder in context.path if folder not in self._installed.folders]
        yield from PathFinder.find_distributions(type(context)(name=context.name, path=elsewhere))
        inside = [folder for folder in context.path if folder in self._installed.folders]
        asked = self.keyed.names if context.name is None else {canonical(context.name)}
        self._named |= set() if context.name is None else asked
        for name in sorted(asked & self.keyed.names):
            yield from PathFinder.find_distributions(type(context)(name=name, path=inside))

    def invalidate_caches(self) -> None:
        """Forget the contents of folders, for importlib.invalidate_caches()."""
        PathFinder.invalidate_caches()

    def _is_installed(self, spec: ModuleSpec) -> bool:
        """Return whether a module lies only in folders with installed distributions."""
        places = [spec.origin] if spec.origin is not None else list(spec.submodule_search_locations or ())
        return all(place.startswith(self._inside) for place in places)


def _modules(name: str, found: Distribution | None) -> KeyedModules:
    """Return the modules of a distribution; None: of a distribution whose modules are local."""
    packages, files, plain = [], [], set()
    for folder, names in found.code.items() if found is not None else ():
        assert found is not None
        place = f"{found.folder}/{folder}" if folder else found.folder
        if "__init__.py" in names:
            packages.append(place)
        else:
            files += [f"{place}/{each}" for each in names]
        while len(place) > len(found.folder):
            plain.add(place)
            place = os.path.dirname(place)
    return KeyedModules(frozenset((name,)), frozenset(packages), frozenset(files), frozenset(plain))


def _is_metadata(name: str) -> bool:
    return name.endswith((".dist-info", ".egg-info"))
