"""Lay out programs with the parts of the runtime that they need.

Inputs   pte, signature   the programs, in the order of `programs`
         ptd              optional: their weights outside them, one file for all
         verified         verified.json of compared programs: a bundle of a wrong program is not made
         delegation       delegation.json of each; compiled parts may state the glibc that they need
         kernels.<name>   optional: kernel libraries, each a library and its description
         files            other files, for the bundle's folder `files`
         runtime          optional: the archive of runtime/archive.py; its runtime.json has each file's needs
Outputs  bundle   run.sh, bin/, lib/, program/, files/, manifest.json; a folder, or a .tar.gz of a folder
Params   name          the folder's name
         programs      the programs' names, without .pte
         tar           true to pack the folder
         arch          the architecture that all its files must be for; null: modelbuild-run's
         installed     without `runtime`: the module whose folder has the runtime's files
         place         the place of the archive in the BUILD file, as "BUILD.toml:4:1"; not in the key
         capabilities  the compute capabilities of the device, as "8.6"; null if unknown
         libraries     version and licence of the inputs library.0, ...; license.0, ... are their texts
         library_places  their places in the BUILD file; not in the key
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shlex
import shutil
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from modelbuild.step import Step, StepError
from modelbuild_rules.bundle.steps.runtime.archive import Calls, LaidOut, calls_of, lay_out
from modelbuild_rules.bundle.steps.runtime.kernels import kernel_files
from modelbuild_rules.bundle.steps.runtime.source import runtime_of
from modelbuild_rules.bundle.steps.runtime.vendor import (
    lay_out_libraries,
    missing_text,
    needed_libraries,
    with_places,
)

if TYPE_CHECKING:
    from modelbuild_rules.bundle.documents import BundledFile, BundleManifest
    from modelbuild_rules.program.documents import CompiledPartition, DelegationDocument

# Finds the bundle, also through a symbolic link to the script.
_HERE = """script=$(readlink -f -- "$0" 2>/dev/null) || script=$0
here=$(CDPATH= cd -- "$(dirname -- "$script")" && pwd)
"""

_RUN_ONE = """#!/bin/sh
# Runs this bundle's program: run.sh --input NAME=FILE.npy; run.sh --help lists all options.
{needs}{here}exec "$here/bin/modelbuild-run" "$here" "$@"
"""

_RUN_SEVERAL = """#!/bin/sh
# Runs a program of this bundle: run.sh PROGRAM --input NAME=FILE.npy; run.sh PROGRAM --help lists all options.
{needs}{here}case "${{1:-}}" in
{names}) ;;
*)
    echo {problem} >&2
    exit 2
    ;;
esac
name=$1
shift
exec "$here/bin/modelbuild-run" "$here/$name" "$@"
"""


def run(step: Step) -> None:
    with TemporaryDirectory() as work:
        folder = Path(work) / step.params["name"] if step.params["tar"] else step.outputs["bundle"]
        folder.mkdir(exist_ok=True)
        _lay_out(step, folder)
        if step.params["tar"]:
            _pack(folder, step.outputs["bundle"])


def _lay_out(step: Step, folder: Path) -> None:
    names: Sequence[str] = step.params["programs"]
    (folder / "program").mkdir()
    programs = {name: folder / "program" / f"{name}.pte" for name in names}
    for name, pte, signature in zip(names, step.inputs["pte"], step.inputs["signature"], strict=True):
        shutil.copyfile(pte, programs[name])
        shutil.copyfile(signature, folder / "program" / f"{name}.signature.json")
    data = None
    if "ptd" in step.inputs:
        # Runtimes load the .ptd of a program's name, or the only .ptd next to it.
        data = f"program/{names[0] if len(names) == 1 else 'weights'}.ptd"
        shutil.copyfile(step.input("ptd"), folder / data)
    delegations: list[DelegationDocument] = [json.loads(path.read_bytes()) for path in step.inputs["delegation"]]
    for name, each in zip(names, delegations, strict=True):
        _check_capabilities(each["partitions"], step.params["capabilities"], name if len(names) > 1 else "")
    parts = [part for each in delegations for part in each["partitions"]]
    calls, runtime = {name: calls_of(pte) for name, pte in programs.items()}, runtime_of(step)
    try:
        laid_out = lay_out(runtime, Calls.of(calls.values()), folder, step.params["arch"], kernel_files(step))
    except StepError as error:
        raise StepError(f"{step.params['place']}: {error}") from error
    needed = needed_libraries(parts)
    libraries, glibc = lay_out_libraries(step, laid_out, needed, folder)
    places = with_places(needed, libraries)
    for file in step.inputs.get("files", ()):
        target = folder / "files" / file.relative_to(step.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if file.is_dir() else shutil.copy)(file, target)
    script = folder / "run.sh"
    missing = missing_text(places)
    script.write_text(_script(names, _comment(missing) if missing else ""))
    script.chmod(0o755)
    compiled = [part["about"]["glibc"] for part in parts if "glibc" in part.get("about", {})]
    made = _manifest(folder, laid_out, [*compiled, *(each.glibc for each in laid_out.kernels), glibc])
    made["programs"] = {
        name: {"file": f"program/{name}.pte", "data": data, "backends": sorted(calls[name].backends)} for name in names
    }
    made["libraries"] = libraries
    made["needs"]["libraries"] = places
    made["needs"]["missing"] = missing
    made["needs"]["compute_capabilities"] = _capabilities(parts)
    (folder / "manifest.json").write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")


def _script(names: Sequence[str], needs: str) -> str:
    """Return run.sh. `needs`: a comment about the machine."""
    if len(names) == 1:
        return _RUN_ONE.format(needs=needs, here=_HERE)
    problem = shlex.quote(f"error: expected a program first: {', '.join(names)}")
    return _RUN_SEVERAL.format(needs=needs, here=_HERE, names="|".join(map(shlex.quote, names)), problem=problem)


def _comment(text: str) -> str:
    """Return text as a comment of the shell, which ends at a line break. Names of libraries are texts of a backend."""
    return f"# {' '.join(text.split())}.\n"


def _capabilities(parts: Sequence[CompiledPartition]) -> list[str] | None:
    """Return the compute capabilities that are common to all partitions that state theirs; None if no partition
    does."""
    stated = [set(part["about"]["capabilities"]) for part in parts if part.get("about", {}).get("capabilities")]
    if not stated:
        return None
    return [f"{number // 10}.{number % 10}" for number in sorted(set.intersection(*stated))]


def _check_capabilities(parts: Sequence[CompiledPartition], wanted: Sequence[str] | None, program: str) -> None:
    """Raise StepError for a partition that the device cannot run. `program`: its name, '' for the only program."""
    for part in parts:
        found = [f"{number // 10}.{number % 10}" for number in part.get("about", {}).get("capabilities", ())]
        lacking = sorted(set(wanted or ()) - set(found)) if found else []
        if lacking:
            of = f" of {program}" if program else ""
            raise StepError(
                f"partition {part['id']}{of} is compiled for compute capability {', '.join(found)}; expected"
                f" {', '.join(lacking)} as well, which the bundle's device has"
            )


def _manifest(folder: Path, laid_out: LaidOut, compiled: Iterable[str]) -> BundleManifest:
    """Return manifest.json without libraries of other vendors. `compiled` are the glibc versions that they, kernel
    libraries and the libraries inside the program need."""
    runtime, needed = laid_out.runtime, laid_out.needed
    versions = [*(runtime["files"][name].get("glibc", "2.0") for name in needed), *compiled]
    glibc = max(tuple(map(int, version.split("."))) for version in versions)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        "version": 1,
        "backends": sorted(laid_out.backends),
        "needs": {
            "machine": laid_out.arch,
            "glibc": ".".join(map(str, glibc)),
            "nvidia_driver": runtime.get("driver") if runtime["cudart"] in needed else None,
            "compute_capabilities": None,
            "libraries": (),
            "missing": None,
        },
        "libraries": {},
        "programs": {},
        "versions": runtime.get("versions", {}),
        "files": {path.relative_to(folder).as_posix(): _facts(path) for path in files},
    }


def _facts(path: Path) -> BundledFile:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _pack(folder: Path, out: Path) -> None:
    """Write a .tar.gz whose bytes depend on names, contents and executable bits alone, not on times or owners."""
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
