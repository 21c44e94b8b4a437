"""Lays out a program with the parts of the runtime that it needs.

Inputs   pte, signature, perhaps ptd   the program
         delegation                    of which compiled parts tell the glibc that they need
         runtime                       what runtime/archive.py packs; its runtime.json says which file needs which
Outputs  bundle   run.sh, bin/, lib/, program/, manifest.json; a folder, or a .tar.gz of one
Params   name     of the folder
         program  the program's name, without .pte
         tar      whether to pack it
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from modelbuild.step import Step, StepError

_RUNNER = "bin/modelbuild-run"
_RUN = """#!/bin/sh
# Runs this bundle's program: run.sh --input NAME=FILE.npy; run.sh --help tells what else there is.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
exec "$here/bin/modelbuild-run" "$here/program/{name}" "$@"
"""


def run(step: Step) -> None:
    with TemporaryDirectory() as work:
        folder = Path(work) / step.params["name"] if step.params["tar"] else step.outputs["bundle"]
        folder.mkdir(exist_ok=True)
        _lay_out(step, folder)
        if step.params["tar"]:
            _pack(folder, step.outputs["bundle"])


def _lay_out(step: Step, folder: Path) -> None:
    name = step.params["program"]
    program = folder / "program" / f"{name}.pte"
    program.parent.mkdir()
    shutil.copyfile(step.input("pte"), program)
    shutil.copyfile(step.input("signature"), program.with_name(f"{name}.signature.json"))
    if "ptd" in step.inputs:
        shutil.copyfile(step.input("ptd"), program.with_name(f"{name}.ptd"))
    with tarfile.open(step.input("runtime")) as archive:
        runtime = _read_runtime(archive)
        _extract(archive, _closure(runtime, [_RUNNER]), folder)
        described = _describe(folder / _RUNNER, program)
        needed = _closure(runtime, [_RUNNER, *_plugins(runtime, described)])
        _extract(archive, needed, folder)
    script = folder / "run.sh"
    script.write_text(_RUN.format(name=program.name))
    script.chmod(0o755)
    parts = json.loads(step.input("delegation").read_bytes())["partitions"]
    compiled = [part["about"]["glibc"] for part in parts if "glibc" in part.get("about", {})]
    manifest = json.dumps(_manifest(folder, runtime, described, needed, compiled), indent=1, sort_keys=True) + "\n"
    (folder / "manifest.json").write_text(manifest)


def _read_runtime(archive: tarfile.TarFile) -> dict[str, Any]:
    try:
        file = archive.extractfile("runtime.json")
        runtime = json.load(file) if file else {}
    except (KeyError, ValueError):
        runtime = {}
    if runtime.get("version") != 1:
        raise StepError(
            "the runtime is not what this version's `make runtime` packs: it has no runtime.json of version 1"
        )
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
                raise StepError(f"the program needs the backend {delegate['backend']}; the runtime has: {known}")
            found.append(library)
        quantized = [name.startswith("quantized_decomposed::") for name in method["operators"]]
        if not all(quantized):
            found.append(runtime["kernels"])
        if any(quantized):
            found.append(runtime["quantized_kernels"])
    # Flavours of TensorRT are found by their names.
    if runtime["backends"].get("TensorRTBackend") in found:
        found += [name for name in runtime["files"] if name.startswith("lib/libmodelbuild_tensorrt_")]
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


def _manifest(
    folder: Path,
    runtime: Mapping[str, Any],
    described: Mapping[str, Any],
    needed: Iterable[str],
    compiled: Iterable[str],
) -> dict[str, Any]:
    """`compiled` are the versions of glibc that libraries inside the program need."""
    backends = sorted({d["backend"] for method in described["methods"] for d in method["delegates"]})
    versions = [*(runtime["files"][name]["glibc"] for name in needed), *compiled]
    glibc = max(tuple(map(int, version.split("."))) for version in versions)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        "version": 1,
        "backends": backends,
        "needs": {
            "machine": "x86_64",
            "glibc": ".".join(map(str, glibc)),
            "nvidia_driver": runtime["driver"] if "lib/libcudart.so.13" in needed else None,
        },
        "versions": runtime["versions"],
        "files": {path.relative_to(folder).as_posix(): _facts(path) for path in files},
    }


def _facts(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _pack(folder: Path, out: Path) -> None:
    """The same bytes for the same files: no times, owners or order of the folder's own."""
    with (
        out.open("wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            entry = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
            entry.size = path.stat().st_size
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as source:
                archive.addfile(entry, source)
