"""The tools and local modules of a step: distributions and modules that it names and imports, with everything that
these require and import."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelbuild.code.corrected_requirements import NO_CORRECTIONS, Corrections
from modelbuild.code.distributions import Distributions, Wanted, canonical, parse
from modelbuild.code.extras import extra_with
from modelbuild.code.interpreter import Interpreter, installed
from modelbuild.code.library import distributions_of, is_library
from modelbuild.code.local_modules import LocalModule, Modules
from modelbuild.code.step_sources import imported_names, imports
from modelbuild.errors import EnvironmentProblem, LoadingError


def imported_modules(sources: Mapping[str, bytes]) -> frozenset[str]:
    """Return the names that Python sources (path -> bytes) may import, except relative names. Raises LoadingError for a
    source that is not Python."""
    found: set[str] = set()
    for path, source in sources.items():
        try:
            names = imported_names(source)
        except SyntaxError as error:
            raise _not_python(path, error) from None
        found.update(name for name, level in names if level == 0)
    return frozenset(found)


def foreign(imported: Iterable[str], paths: Iterable[str]) -> frozenset[str]:
    """Return the imported modules that are not among the sources themselves, by their paths in the workspace."""
    own = {path.partition("/")[0].removesuffix(".py") for path in paths}
    return frozenset(name for name in imported if name.partition(".")[0] not in own)


@dataclass(frozen=True, slots=True)
class Needed:
    """Canonical names of distributions, local modules, named tools that are not installed, and imported top-level
    modules that do not exist. The packages of the distributions `beside` are among the local modules, because the
    toolchain lacks them."""

    distributions: tuple[str, ...] = ()
    local: tuple[LocalModule, ...] = ()
    beside: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


class Tools:
    """The tools of one workspace. Safe for many threads; distributions installed meanwhile are ignored.

    keyed        names of top-level modules whose content is always in keys: the modules of modelbuild and of rule
                 packages
    interpreter  the Python that steps run in; by default the Python that modelbuild runs in
    corrections  corrections of the requirements that distributions declare
    """

    def __init__(
        self,
        workspace: Path,
        keyed: Collection[str],
        interpreter: Interpreter | None = None,
        corrections: Corrections = NO_CORRECTIONS,
    ) -> None:
        self._interpreter = interpreter or installed()
        self.distributions = distributions_of(self._interpreter)
        self._packages = keyed
        self._corrections = corrections
        self._modules = Modules(self._interpreter, self.distributions, str(workspace), keyed)
        self._known: dict[tuple[frozenset[str], frozenset[str]], Needed] = {}
        self._lock = threading.Lock()

    def needed(self, names: Iterable[str], imported: Iterable[str]) -> Needed:
        """Return the closure of tools, by name, and imported modules. Raises LoadingError for a local module that is
        not Python, and EnvironmentProblem for a module in an archive or a distribution with unknown modules."""
        asked = (frozenset(names), frozenset(imported))
        with self._lock:
            if asked not in self._known:
                self._known[asked] = _Search(self.distributions, self._modules, self._corrections).run(*asked)
            return self._known[asked]

    def not_installed(self, missing: Sequence[str], tools: Iterable[str], needed_by: str) -> EnvironmentProblem:
        """Return the error for missing tools, with the package to install if an extra of a rule package's distribution
        contains them. It names the first missing tool: a rule lists a tool before the distributions that the tool
        requires."""
        tools = tuple(tools)
        first = next((name for name in tools if name in missing), missing[0])
        if self._interpreter.toolchain:
            lock = f"{self._interpreter.lock}, the lock of {self._interpreter.toolchain}"
            if is_library(parse(first)[0]):
                places = f"neither installed with modelbuild nor in {lock}; expected `pip install --no-deps {first}`"
                return EnvironmentProblem(f"{needed_by} needs the package '{first}', which is {places}")
            advice = self._interpreter.lock_advice("it")
            return EnvironmentProblem(f"{needed_by} needs the package '{first}', which {lock}, does not list; {advice}")
        install = extra_with(missing, tools, self._packages, self.distributions)
        hint = f"install {install}" if install else "install it"
        if is_library(parse(first)[0]):
            hint += f"; in modelbuild's checkout, `make wheels`, then `pip install --find-links dist '{install}'`"
        elif install:
            hint += ", or name a toolchain, `toolchain = LABEL` in [build] of MODELBUILD.toml"
        return EnvironmentProblem(f"{needed_by} needs the package '{first}', which is not installed; {hint}")

    def shadow(self, local: Iterable[LocalModule]) -> bool:
        """Return whether one of these hides an installed module."""
        return any(self._modules.shadows(each.name) for each in local)

    def may_be_local(self, path: str) -> bool:
        """Return whether a file, by its absolute path, can be part of a local module."""
        return self._modules.may_contain(path)

    def imported(self, imported: Iterable[str]) -> tuple[str, ...]:
        """Return the names of distributions and local modules for imported modules, without their requirements;
        needed() returns the same closure for these names."""
        with self._lock:
            search = _Search(self.distributions, self._modules, self._corrections)
            search.follow(imported)
        return tuple(sorted({*search.owners, *(local.name for local in search.local)}))


class _Search:
    """One walk from tools and imports to their closure."""

    def __init__(self, distributions: Distributions, modules: Modules, corrections: Corrections) -> None:
        self._distributions = distributions
        self._modules = modules
        self._corrections = corrections
        self._required: dict[str, set[str]] = {}
        self._followed: set[str] = set()
        self._absent: set[str] = set()
        self.owners: set[str] = set()
        self.local: dict[LocalModule, tuple[str, ...]] = {}

    def run(self, names: Iterable[str], imported: Iterable[str]) -> Needed:
        missing = []
        for name in sorted(names):
            text = name.partition("[")[0].strip()
            module = text if "." in text else text.replace("-", "_")
            self._require(parse(name))
            there = self._distributions.find(canonical(text)) is not None
            if self._modules.is_local(module):
                self.follow([module])
            elif not there and module not in {each.name for each in self.local}:
                missing.append(name)
        self.follow(imported)
        done: set[str] = set()
        while self.owners - done:
            for name in sorted(self.owners - done):
                done.add(name)
                self._require((name, frozenset()))
        self._check_projects()
        distributions, local = tuple(sorted(self._required)), tuple(sorted(self.local))
        beside = tuple(filter(self._distributions.is_beside, distributions))
        return Needed(distributions, local, beside, tuple(missing), tuple(sorted(self._absent)))

    def follow(self, imported: Iterable[str]) -> None:
        """Add the owners of modules, and follow the imports of local modules."""
        pending = list(imported)
        while pending:
            name = pending.pop()
            if not name or name in self._followed:
                continue
            self._followed.add(name)
            found = self._modules.find(name)
            if found is None:
                if not self._modules.is_excluded(name):
                    self._absent.add(name.partition(".")[0])
                continue
            self.owners.update(found.owners)
            if found.local is not None:
                self.local[found.local] = found.owners
                pending += _imports(found.local, name)

    def _require(self, wanted: Wanted) -> None:
        """Add a distribution and its installed requirements."""
        pending = [wanted]
        while pending:
            name, extras = pending.pop()
            found = self._distributions.find(name)
            asked = extras | {""}
            if found is None or asked <= self._required.get(name, set()):
                continue
            self._required.setdefault(name, set()).update(asked)
            pending += self._corrections.requires(found, extras)
            if self._distributions.is_beside(name):
                packages = (each for each in found.packages if not self._modules.is_excluded(each))
                self.local.update((LocalModule(each, f"{found.source}/{each}"), (name,)) for each in packages)
            elif not found.has_record:
                self.follow(found.modules)

    def _check_projects(self) -> None:
        """Raise EnvironmentProblem for an editable distribution without any known module."""
        known = {owner for owners in self.local.values() for owner in owners}
        for name in self._required.keys() - known:
            found = self._distributions.find(name)
            if found is not None and found.project and not any(map(self._modules.is_there, found.modules)):
                raise EnvironmentProblem(
                    f"{name} is installed in editable mode, from {found.project}, and does not list its modules; "
                    f"expected 'requires' with the module's name"
                )


def _imports(local: LocalModule, name: str) -> list[str]:
    """Return the imports of a module that is local or in a local package, and the packages around it."""
    below = name.removeprefix(local.name).replace(".", "/")
    candidates = [f"{local.path}{below}/__init__.py", f"{local.path}{below}.py", *([local.path] if not below else [])]
    file = next((path for path in candidates if path.endswith(".py") and os.path.isfile(path)), None)
    parents = [name.rpartition(".")[0]] if below else []
    if file is None:
        return parents
    try:
        return parents + imports(Path(file), name)
    except SyntaxError as error:
        raise _not_python(file, error) from None


def _not_python(path: str, error: SyntaxError) -> LoadingError:
    return LoadingError(f"{path}:{error.lineno}:{error.offset}: not Python: {error.msg}")
