"""Copy from the C++ runtime the files that one program needs.

A runtime is an archive of runtime/archive.py, or the folder of the same files that a wheel of modelbuild-runtime
installs.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Protocol

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.elf import machine
from modelbuild_rules.bundle.steps.runtime.kernels import KernelFiles
from modelbuild_runtime.errors import ProgramError
from modelbuild_runtime.files.contents import contents
from modelbuild_runtime.files.pte import read_program_file

if TYPE_CHECKING:
    from modelbuild_rules.bundle.documents import RuntimeDocument

RUNNER = "bin/modelbuild-run"


class MissingBackend(StepError):
    """Raised for a program that needs a backend or a kernel library that the runtime was built without."""


@dataclass(frozen=True)
class Calls:
    """The backends and the kernels that the methods of programs call, by name; `libraries` has the kernel library of
    each kernel outside ExecuTorch's own."""

    backends: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    libraries: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, programs: Iterable[Calls]) -> Calls:
        """Return the calls of several programs together."""
        several = list(programs)
        return cls(
            frozenset().union(*(each.backends for each in several)),
            frozenset().union(*(each.operators for each in several)),
            {operator: library for each in several for operator, library in each.libraries.items()},
        )


def calls_of(program: Path) -> Calls:
    """Return the calls of a .pte. Raises StepError for a file that is not a program."""
    try:
        found = read_program_file(program)
        methods, needed = found.methods, contents(found.manifest, program).kernels
    except ProgramError as error:
        raise StepError(f"the program cannot be read: {error}") from error
    return Calls(
        frozenset(delegate.backend for method in methods for delegate in method.delegates),
        frozenset(name for method in methods for name, _ in method.operators),
        {operator: library.name for library in needed for operator in library.operators},
    )


@dataclass(frozen=True)
class LaidOut:
    """The files of a runtime that a program needs.

    runtime   the archive's runtime.json
    backends  names of the backends that the program calls
    needed    paths of the runtime's files, sorted
    arch      the architecture of these files
    kernels   kernel libraries outside the runtime that the program needs
    """

    runtime: RuntimeDocument
    backends: frozenset[str]
    needed: tuple[str, ...]
    arch: str
    kernels: tuple[KernelFiles, ...] = ()

    def missing_flavour(self) -> str:
        """Return a message about a backend that needs one of several flavours and has none; '' if there is no such
        backend."""
        found = (self.runtime["backends"][name] for name in sorted(self.backends))
        return next((str(each["no_flavour"]) for each in found if each.get("flavours") == []), "")


def lay_out(
    source: Path,
    calls: Calls,
    folder: Path,
    arch: str | None = None,
    kernels: Mapping[str, KernelFiles] = MappingProxyType({}),
) -> LaidOut:
    """Write modelbuild-run and the libraries that a program needs into a folder. `source` is an archive or a folder,
    `arch` the required architecture of the files (None: modelbuild-run's), `kernels` are libraries outside the runtime.
    Raises StepError for a runtime that does not fit."""
    try:
        with _opened(source) as files:
            runtime = _read_runtime(files)
            _copy(files, [RUNNER], folder)
            found = machine(folder / RUNNER)
            if found is None:
                raise StepError(f"{RUNNER} of the runtime is not a program; expected the runner of `make runtime`")
            if arch not in (None, found):
                raise StepError(f"{_OTHER.format(RUNNER, found, arch)}: `make runtime ARCH={arch}` builds that")
            own = {name: each for name, each in kernels.items() if name in calls.libraries.values()}
            needed = _closure(runtime, [RUNNER, *_plugins(runtime, calls, own)])
            _copy(files, needed, folder)
    except (tarfile.TarError, EOFError) as error:
        raise StepError(f"{_UNREADABLE} ({error})") from error
    for name in needed:
        if (other := machine(folder / name)) not in (None, found):
            raise StepError(_OTHER.format(name, other, found))
    for name, each in own.items():
        if (other := machine(each.library)) != found:
            raise StepError(f"the kernel library {name} is for {other}; expected {found}, as the runtime")
        each.copy(folder)
    return LaidOut(runtime, calls.backends, tuple(needed), found, tuple(own.values()))


_MOST_JSON = 1 << 24
_PLACE = re.compile(r"(bin|lib|lib/gcc)/[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z")
_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4})*\Z")
_OTHER = "{} of the runtime is for {}; expected {}"
_UNREADABLE = "the runtime has no runtime.json of version 2; expected the archive of this version's `make runtime`"


class _Files(Protocol):
    """The files of a runtime, by path."""

    def open(self, name: str) -> IO[bytes] | None:
        """Open a file; return None if there is none."""


class _Folder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, name: str) -> IO[bytes] | None:
        path = self._root / name
        return path.open("rb") if path.is_file() else None


class _Archive:
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive

    def open(self, name: str) -> IO[bytes] | None:
        try:
            return self._archive.extractfile(name)
        except KeyError:
            return None


@contextmanager
def _opened(source: Path) -> Iterator[_Files]:
    if source.is_dir():
        yield _Folder(source)
    else:
        with tarfile.open(source, "r:") as archive:
            yield _Archive(archive)


def _read_runtime(files: _Files) -> RuntimeDocument:
    try:
        file = files.open("runtime.json")
        if file is not None:
            with file:
                text = file.read(_MOST_JSON + 1)
            runtime: RuntimeDocument = json.loads(text)
            if len(text) <= _MOST_JSON and _is_valid(runtime):
                return runtime
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        pass
    raise StepError(_UNREADABLE)


def _is_valid(runtime: RuntimeDocument) -> bool:
    """Return whether runtime.json has all fields that are read and no path outside the folder. May raise any exception
    for a missing or mistyped field."""
    named = [runtime["kernels"], runtime["quantized_kernels"], runtime["cudart"]]
    for library in runtime.get("kernel_libraries", {}).values():
        named += library["files"]
        if not all(isinstance(operator, str) for operator in library["operators"]):
            return False
    for backend in runtime["backends"].values():
        named += [*backend["files"], *backend.get("flavours", ())]
        if not isinstance(backend.get("no_flavour", ""), str):
            return False
    for name, file in runtime["files"].items():
        named += [name, *file["needs"]]
        if not _VERSION.match(file.get("glibc", "2.0")):
            return False
    return runtime["version"] == 2 and all(map(_PLACE.match, named))


def _plugins(runtime: RuntimeDocument, calls: Calls, kernels: Mapping[str, KernelFiles]) -> list[str]:
    """Return the runtime's files from which the runner loads a program's backends and kernels. `kernels` are libraries
    outside the runtime."""
    found: list[str] = []
    for name in sorted(calls.backends):
        if name not in runtime["backends"]:
            known = ", ".join(sorted(runtime["backends"]))
            raise MissingBackend(f"the program needs the backend {name}; the runtime has: {known}")
        backend = runtime["backends"][name]
        found += [*backend["files"], *backend.get("flavours", ())]
    libraries = runtime.get("kernel_libraries", {})
    for operator in sorted(calls.operators):
        name = calls.libraries.get(operator, "")
        if name in kernels:
            if operator not in kernels[name].operators:
                raise MissingBackend(f"the program needs the kernel {operator} of {name}, which {name} lacks")
            continue
        if name and operator not in libraries.get(name, {"operators": ()})["operators"]:
            raise MissingBackend(f"the program needs the kernel {operator} of {name}, which the runtime lacks")
        if name:
            found += libraries[name]["files"]
        else:
            quantized = operator.startswith("quantized_decomposed::")
            found.append(runtime["quantized_kernels" if quantized else "kernels"])
    return found


def _closure(runtime: RuntimeDocument, wanted: Iterable[str]) -> list[str]:
    """Return files and all files that they need, sorted."""
    found: set[str] = set()
    pending = list(wanted)
    while pending:
        name = pending.pop()
        if name not in runtime["files"]:
            raise StepError(f"the runtime has no {name}")
        if name not in found:
            found.add(name)
            pending += runtime["files"][name]["needs"]
    return sorted(found)


def _copy(files: _Files, names: Iterable[str], folder: Path) -> None:
    for name in names:
        target = folder / name
        if target.exists():
            continue
        source = files.open(name)
        if source is None:
            raise StepError(f"the runtime has no file {name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
        target.chmod(0o644 if name.endswith(".json") else 0o755)
