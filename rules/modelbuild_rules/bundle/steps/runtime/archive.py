"""Extract from the C++ runtime's archive (runtime/archive.py) the files that one program needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.step import StepError
from modelbuild_rules.bundle.steps.runtime.elf import machine

if TYPE_CHECKING:
    from modelbuild_rules.bundle.documents import RuntimeDocument

RUNNER = "bin/modelbuild-run"


class MissingBackend(StepError):
    """Raised for a program that needs a backend that the runtime was built without."""


@dataclass(frozen=True)
class LaidOut:
    """The files of a runtime that a program needs.

    runtime   the archive's runtime.json
    backends  names of the backends that the program calls
    needed    paths of the runtime's files, sorted
    arch      the architecture of these files; None if none is an ELF file
    """

    runtime: RuntimeDocument
    backends: frozenset[str]
    needed: tuple[str, ...]
    arch: str | None

    def missing_flavour(self) -> str:
        """Return a message about a backend that needs one of several flavours and has none; '' if there is none."""
        found = (self.runtime["backends"][name] for name in sorted(self.backends))
        return next((str(each["no_flavour"]) for each in found if each.get("flavours") == []), "")


def lay_out(packed: Path, program: Path, folder: Path, arch: str | None = None) -> LaidOut:
    """Write modelbuild-run and the libraries that a .pte needs into a folder. `arch` is their required architecture
    (None: that of modelbuild-run). Raises StepError for an archive or a program that does not fit."""
    try:
        with tarfile.open(packed, "r:") as archive:
            runtime = _read_runtime(archive)
            _extract(archive, _closure(runtime, [RUNNER]), folder)
            arch = arch or machine(folder / RUNNER)
            _check_machine(folder, arch)
            backends, operators = _describe(folder / RUNNER, program)
            needed = _closure(runtime, [RUNNER, *_plugins(runtime, sorted(backends), operators)])
            _extract(archive, needed, folder)
            _check_machine(folder, arch)
    except (tarfile.TarError, EOFError) as error:
        raise StepError(f"{_UNREADABLE} ({error})") from error
    return LaidOut(runtime, backends, tuple(needed), arch)


def _check_machine(folder: Path, arch: str | None) -> None:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found = machine(path)
        if found not in (None, arch):
            raise StepError(f"{path.relative_to(folder)} of the runtime is for {found}; expected {arch}")


_MOST_JSON = 1 << 24
_PLACE = re.compile(r"(bin|lib)/[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z")
_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4})*\Z")
_UNREADABLE = "the runtime has no runtime.json of version 2; expected the archive of this version's `make runtime`"


def _read_runtime(archive: tarfile.TarFile) -> RuntimeDocument:
    try:
        entry = archive.getmember("runtime.json")
        file = archive.extractfile(entry) if entry.size <= _MOST_JSON else None
        if file is not None:
            runtime: RuntimeDocument = json.load(file)
            if _is_valid(runtime):
                return runtime
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        pass
    raise StepError(_UNREADABLE)


def _is_valid(runtime: RuntimeDocument) -> bool:
    """Return whether runtime.json has all fields that are read and no path outside the folder. May raise any error of
    a missing or mistyped field."""
    named = [runtime["kernels"], runtime["quantized_kernels"], runtime["cudart"]]
    for backend in runtime["backends"].values():
        named += [*backend["files"], *backend.get("flavours", ())]
        if not isinstance(backend.get("no_flavour", ""), str):
            return False
    for name, file in runtime["files"].items():
        named += [name, *file["needs"]]
        if not _VERSION.match(file.get("glibc", "2.0")):
            return False
    return runtime["version"] == 2 and all(map(_PLACE.match, named))


def _describe(runner: Path, program: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the backends and the kernels that the program's methods call, as the runner reports them."""
    command = [str(runner), str(program), "--describe", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:  # not an executable, or one for another machine
        raise StepError(f"the runtime's {RUNNER} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise StepError(f"the program cannot be read by the runtime: {done.stderr.strip().removeprefix('error: ')}")
    try:
        methods = json.loads(done.stdout)["methods"]
        backends = frozenset(str(delegate["backend"]) for method in methods for delegate in method["delegates"])
        return backends, frozenset(str(name) for method in methods for name in method["operators"])
    except (KeyError, TypeError, ValueError):
        raise StepError(
            f"the runtime's {RUNNER} does not describe the program; expected the runner of `make runtime`"
        ) from None


def _plugins(runtime: RuntimeDocument, backends: Iterable[str], operators: Iterable[str]) -> list[str]:
    """Return the files from which the runner loads a program's backends and kernels."""
    found: list[str] = []
    for name in backends:
        if name not in runtime["backends"]:
            known = ", ".join(sorted(runtime["backends"]))
            raise MissingBackend(f"the program needs the backend {name}; the runtime has: {known}")
        backend = runtime["backends"][name]
        found += [*backend["files"], *backend.get("flavours", ())]
    quantized = {name.startswith("quantized_decomposed::") for name in operators}
    return found + [runtime["quantized_kernels" if each else "kernels"] for each in quantized]


def _closure(runtime: RuntimeDocument, wanted: Iterable[str]) -> list[str]:
    """Return files and all files that they need, sorted."""
    found: set[str] = set()
    pending = list(wanted)
    while pending:
        name = pending.pop()
        if name not in runtime["files"]:
            raise StepError(f"the runtime's archive has no {name}")
        if name not in found:
            found.add(name)
            pending += runtime["files"][name]["needs"]
    return sorted(found)


def _extract(archive: tarfile.TarFile, names: Iterable[str], folder: Path) -> None:
    for name in names:
        target = folder / name
        if target.exists():
            continue
        source = archive.extractfile(name)
        if source is None:
            raise StepError(f"the runtime's archive has no file {name}")
        target.parent.mkdir(exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(source, file)
        target.chmod(0o644 if name.endswith(".json") else 0o755)
