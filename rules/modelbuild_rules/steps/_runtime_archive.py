"""The C++ runtime as runtime/archive.py packs it: lays out what one program needs, as a bundle has it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild.step import StepError

RUNNER = "bin/modelbuild-run"
FLAVOURS = "lib/libmodelbuild_tensorrt_"
"""How names of files begin that tie the TensorRT delegate to one of NVIDIA's libraries."""


class LackingBackend(StepError):
    """The program needs a backend that the runtime was built without."""


@dataclass(frozen=True)
class LaidOut:
    """runtime: the archive's runtime.json. backends: that the program needs. needed: files of the runtime, sorted."""

    runtime: Mapping[str, Any]
    backends: frozenset[str]
    needed: tuple[str, ...]


def lay_out(packed: Path, program: Path, folder: Path) -> LaidOut:
    """Write modelbuild-run and the libraries that a .pte needs into a folder. Raises StepError."""
    if not tarfile.is_tarfile(packed):
        raise StepError(_NOT_OURS)
    with tarfile.open(packed) as archive:
        runtime = _read_runtime(archive)
        _extract(archive, _closure(runtime, [RUNNER]), folder)
        described = _describe(folder / RUNNER, program)
        needed = _closure(runtime, [RUNNER, *_plugins(runtime, described)])
        _extract(archive, needed, folder)
    backends = frozenset(d["backend"] for method in described["methods"] for d in method["delegates"])
    return LaidOut(runtime, backends, tuple(needed))


_NOT_OURS = "the runtime is not what this version's `make runtime` packs: it has no runtime.json of version 1"


def _read_runtime(archive: tarfile.TarFile) -> dict[str, Any]:
    try:
        file = archive.extractfile("runtime.json")
        runtime = json.load(file) if file else {}
    except (KeyError, ValueError):
        runtime = {}
    if runtime.get("version") != 1:
        raise StepError(_NOT_OURS)
    return dict(runtime)


def _describe(runner: Path, program: Path) -> dict[str, Any]:
    """What the program's methods call, as the runner itself tells it."""
    done = subprocess.run([runner, program, "--describe", "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StepError(f"the program cannot be read by the runtime: {done.stderr.strip().removeprefix('error: ')}")
    return dict(json.loads(done.stdout))


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
