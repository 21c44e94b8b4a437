"""The C++ runtime as runtime/archive.py packs it: lays out what one program needs, as a bundle has it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild.step import StepError
from modelbuild_rules.bundle.steps.runtime.elf import machine

RUNNER = "bin/modelbuild-run"
FLAVOURS = "lib/libmodelbuild_tensorrt_"
"""How names of files begin that tie the TensorRT delegate to one of NVIDIA's libraries."""


class LackingBackend(StepError):
    """The program needs a backend that the runtime was built without."""


@dataclass(frozen=True)
class LaidOut:
    """runtime: the archive's runtime.json. backends: that the program needs. needed: files of the runtime, sorted.
    arch: the architecture that they are for; None where none is an ELF file."""

    runtime: Mapping[str, Any]
    backends: frozenset[str]
    needed: tuple[str, ...]
    arch: str | None


def lay_out(packed: Path, program: Path, folder: Path, arch: str | None = None) -> LaidOut:
    """Write modelbuild-run and the libraries that a .pte needs into a folder; `arch` is the architecture that they have
    to be for (None: that of modelbuild-run). Raises StepError."""
    try:
        with tarfile.open(packed, "r:") as archive:
            runtime = _read_runtime(archive)
            _extract(archive, _closure(runtime, [RUNNER]), folder)
            arch = arch or machine(folder / RUNNER)
            _check_machine(folder, arch)
            described = _describe(folder / RUNNER, program)
            needed = _closure(runtime, [RUNNER, *_plugins(runtime, described)])
            _extract(archive, needed, folder)
            _check_machine(folder, arch)
    except (tarfile.TarError, EOFError) as error:
        raise StepError(f"{_NOT_OURS} ({error})") from error
    backends = frozenset(d["backend"] for method in described["methods"] for d in method["delegates"])
    return LaidOut(runtime, backends, tuple(needed), arch)


def _check_machine(folder: Path, arch: str | None) -> None:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found = machine(path)
        if found not in (None, arch):
            raise StepError(f"{path.relative_to(folder)} of the runtime is for {found}; expected {arch}")


_MOST_JSON = 1 << 24
_PLACE = re.compile(r"(bin|lib)/[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z")
_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4})*\Z")
_NOT_OURS = "the runtime is not what this version's `make runtime` packs: it has no runtime.json of version 1"


def _read_runtime(archive: tarfile.TarFile) -> dict[str, Any]:
    try:
        entry = archive.getmember("runtime.json")
        file = archive.extractfile(entry) if entry.size <= _MOST_JSON else None
        runtime = json.load(file) if file else {}
        if _is_ours(runtime):
            return dict(runtime)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        pass
    raise StepError(_NOT_OURS)


def _is_ours(runtime: Mapping[str, Any]) -> bool:
    """Return whether all that is read is there and no file lies outside the folder. May raise for anything else."""
    named = [*runtime["backends"].values(), runtime["kernels"], runtime["quantized_kernels"]]
    for name, file in runtime["files"].items():
        named += [name, *file["needs"]]
        if not _VERSION.match(file.get("glibc", "2.0")):
            return False
    return runtime["version"] == 1 and all(map(_PLACE.match, named))


def _describe(runner: Path, program: Path) -> dict[str, Any]:
    """What the program's methods call, as the runner itself tells it."""
    command = [str(runner), str(program), "--describe", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:  # it is no program, or one for another machine
        raise StepError(f"the runtime's {RUNNER} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise StepError(f"the program cannot be read by the runtime: {done.stderr.strip().removeprefix('error: ')}")
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        raise StepError(
            f"the runtime's {RUNNER} does not describe the program; expected that of `make runtime`"
        ) from None


def _plugins(runtime: Mapping[str, Any], described: Mapping[str, Any]) -> list[str]:
    """The libraries that the runner loads for a program."""
    found = []
    for method in described["methods"]:
        for delegate in method["delegates"]:
            library = runtime["backends"].get(delegate["backend"])
            if library is None:
                known = ", ".join(sorted(runtime["backends"]))
                raise LackingBackend(f"the program needs the backend {delegate['backend']}; the runtime has: {known}")
            found.append(library)
        quantized = [name.startswith("quantized_decomposed::") for name in method["operators"]]
        if not all(quantized):
            found.append(runtime["kernels"])
        if any(quantized):
            found.append(runtime["quantized_kernels"])
    # Flavours of TensorRT are found by their names.
    if runtime["backends"].get("TensorRTBackend") in found:
        found += [name for name in runtime["files"] if name.startswith(FLAVOURS)]
    return found


def _closure(runtime: Mapping[str, Any], wanted: Iterable[str]) -> list[str]:
    """Files with all that they need, sorted."""
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
        target.chmod(0o755)
