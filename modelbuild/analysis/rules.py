"""Load rule packages: the built-in package and a workspace's own packages, in the same way."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import modelbuild
from modelbuild.analysis.undeclared_reads import UndeclaredRead, refused_reads, watch, watch_package
from modelbuild.api.command import Command
from modelbuild.api.extension import Extension, extended
from modelbuild.api.probe import DeviceRuntime, Probe
from modelbuild.api.rule import Rule
from modelbuild.api.rule_errors import describe_error
from modelbuild.code.byte_code import keep_byte_code
from modelbuild.code.package_finder import PackageFinder
from modelbuild.errors import LoadingError, Location
from modelbuild.loading.package import OTHER_TABLES
from modelbuild.workspace.workspace import BUILT_IN, LIBRARY

T = TypeVar("T", Rule, Command, Extension, Probe, DeviceRuntime)

# The folder of code that runs inside actions.
STEPS = "steps"

# Finds the rule packages of workspaces, whose folders are not on sys.path. Ignores Python's own byte code, which is
# valid for a time and a size: a rule may be edited twice within a second.
_finder = PackageFinder({})


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules by name, the folder of each rule package by import name, extensions by point and name, probes, runtimes for
    devices, and commands by name."""

    by_name: Mapping[str, Rule]
    packages: Mapping[str, Path]
    extensions: Mapping[str, Mapping[str, Extension]] = field(default_factory=dict)
    probes: tuple[Probe, ...] = ()
    runtimes: tuple[DeviceRuntime, ...] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)


# A workspace's rule package with one of these names would hide other modules.
_TAKEN = sys.stdlib_module_names | {"modelbuild", BUILT_IN, LIBRARY}


def import_name(reference: str) -> str:
    """Return the import name of a rule package: the reference itself, or for a folder of the workspace
    (`//tools/rules`) its path with underscores (`tools_rules`)."""
    return reference.removeprefix("//").replace("/", "_").replace("-", "_").replace(".", "_")


def load_rules(root: Path, references: Sequence[str], locate: Mapping[str, Location] | None = None) -> Rules:
    """Import the built-in rule package and the referenced packages, and collect the rules and extensions in their
    modules.

    Raises LoadingError for a package that is missing, fails to import or reads something, and for a rule or extension
    with the name of another package's.
    """
    by_name: dict[str, Rule] = {}
    extensions: dict[str, dict[str, Extension]] = {}
    packages: dict[str, Path] = {}
    probes: dict[str, Probe] = {}
    runtimes: dict[str, DeviceRuntime] = {}
    commands: dict[str, Command] = {}
    for reference in dict.fromkeys([BUILT_IN, *references]):
        where = (locate or {}).get(reference)
        package = _import(root, reference, where)
        packages[package.__name__] = folder = Path(str(package.__file__)).parent
        if reference != BUILT_IN:
            watch_package(folder)
        elif len({BUILT_IN, *references}) > 1:
            watch(root, (folder, *filter(None, [_library()])))
        for module in _modules(root, package, reference, where):
            for value in vars(module).values():
                if isinstance(value, Extension) and value.package == package.__name__:
                    _add(extensions.setdefault(value.point, {}), value, value.point, reference, where)
                elif isinstance(value, Rule) and value.package == package.__name__:
                    if value.name in OTHER_TABLES:
                        raise LoadingError(f"[[{value.name}]] declares no targets; rename the rule", where)
                    _add(by_name, value, "rule", reference, where)
                elif isinstance(value, Probe) and value.package == package.__name__:
                    _add(probes, value, "probe", reference, where)
                elif isinstance(value, DeviceRuntime) and value.package == package.__name__:
                    _add(runtimes, value, "runtime", reference, where)
                elif isinstance(value, Command) and value.package == package.__name__:
                    _add(commands, value, "command", reference, where)
    library = _library()
    if library is not None:
        packages[LIBRARY] = library
    rules = {name: replace(each, attrs=extended(each.attrs, extensions)) for name, each in by_name.items()}
    return Rules(rules, packages, extensions, tuple(probes.values()), tuple(runtimes.values()), commands)


def _library() -> Path | None:
    """Return the folder of modelbuild-runtime's package; None if it is missing."""
    installed = importlib.util.find_spec(LIBRARY)
    if installed is not None and installed.origin is not None:
        return Path(installed.origin).parent
    copy = Path(modelbuild.__file__).parent / "library" / LIBRARY  # in modelbuild's wheel (protos/generate.py)
    return copy if copy.is_dir() else None


def _add(known: dict[str, T], found: T, kind: str, reference: str, where: Location | None) -> None:
    other = known.setdefault(found.name, found)
    if other != found:
        message = f"{kind} '{found.name}' of '{reference}' exists already in package '{other.package}'; rename one"
        raise LoadingError(message, where)


def _import(root: Path, reference: str, where: Location | None) -> ModuleType:
    name = import_name(reference)
    if not reference.startswith("//"):
        module = _guarded(root, name, reference, where)
        if not hasattr(module, "__path__") or getattr(module, "__file__", None) is None:
            raise LoadingError(f"no rule package '{reference}'; expected a package with an __init__.py", where)
        return module
    if name in _TAKEN:
        raise LoadingError(f"rule package '{reference}' would hide another module called '{name}'; rename it", where)
    init = root / reference.removeprefix("//") / "__init__.py"
    if not init.is_file():
        raise LoadingError(f"no rule package '{reference}': expected {init.relative_to(root)}", where)
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(init):
        return loaded
    forget(name)
    if not sys.dont_write_bytecode:
        for file in init.parent.rglob("*.py"):
            keep_byte_code(file)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.folders[name] = str(init.parent)
    return _guarded(root, name, reference, where)


def forget(name: str) -> None:
    """Drop a package and its modules from sys.modules (a package of the same name in another workspace)."""
    for key in [k for k in sys.modules if k == name or k.startswith(name + ".")]:
        del sys.modules[key]


def _modules(root: Path, package: ModuleType, reference: str, where: Location | None) -> Iterator[ModuleType]:
    """Import the modules of a package and its subpackages, except folders called `steps`: their modules run inside
    actions, import torch, and are loaded by name."""
    for info in pkgutil.iter_modules(package.__path__):
        if info.name == STEPS:
            continue
        module = _guarded(root, f"{package.__name__}.{info.name}", reference, where)
        yield module
        if info.ispkg:
            yield from _modules(root, module, reference, where)


def _guarded(root: Path, name: str, reference: str, where: Location | None) -> ModuleType:
    try:
        with refused_reads():
            return importlib.import_module(name)
    except UndeclaredRead:
        raise
    except (Exception, SystemExit) as error:
        raise _broken(root, name.partition(".")[0], reference, error, where) from error


def _broken(root: Path, name: str, reference: str, error: BaseException, where: Location | None) -> LoadingError:
    if isinstance(error, ModuleNotFoundError) and error.name == name:
        expected = "a package that Python can import, or //folder for one of the workspace"
        return LoadingError(f"no rule package '{reference}'; expected {expected}", where)
    folder = root / reference.removeprefix("//")
    if not reference.startswith("//"):
        with suppress(ValueError):  # for a module without a spec
            package = importlib.util.find_spec(name)
            folder = Path(package.origin).parent if package is not None and package.origin else folder
    return LoadingError(f"rule package '{reference}' does not load: {describe_error(error, folder, root)}", where)
