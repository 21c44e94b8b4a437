"""Documents about modelbuild's distributions, by the code that `modelbuild attest` and `modelbuild sbom` use."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from modelbuild.analysis.rules import load_rules
from modelbuild.trust.evidence import File
from modelbuild.trust.packages import PythonPackage, package_license
from modelbuild.trust.provenance import (
    RELEASE_TYPE,
    builder_entry,
    commit_entry,
    file_entry,
    package_entry,
    predicate_bytes,
)
from modelbuild.trust.revision import Revision
from modelbuild.trust.sbom.cyclonedx import cyclonedx_bytes
from modelbuild.trust.sbom.inventory import Item, inventory_of
from modelbuild_rules.bundle.contents import libraries_of

# The lock pins the build tools by SHA-256, the other one the libraries that the runtime is linked with.
LOCKS = ("requirements.lock", "runtime/sdk.lock")
RUNTIME = re.compile(r"modelbuild_runtime(_native|_\w+)/runtime\.json")


def bills(made: Iterable[Path], time: int) -> dict[str, bytes]:
    """Return the bill of materials of each distribution, by its file's name."""
    tools = [Item("package", each.name, each.version, each.license, each.purl) for each in build_tools()]
    found = {}
    for path in made:
        outputs = {path.name: sha256_of(path)}
        inventory = inventory_of(path.name, outputs, [*_own(path), *_linked(path), *tools], time)
        found[f"{path.name}.cdx.json"] = cyclonedx_bytes(inventory)
    return found


def _own(path: Path) -> Iterator[Item]:
    """Yield the distribution itself."""
    name, version = path.name.removesuffix(".tar.gz").split("-")[:2]
    package = PythonPackage(canonicalize_name(name), version, "", "")
    (line,) = re.findall(r"^License-Expression: (.+)$", _metadata(path), re.MULTILINE)
    yield Item("library", package.name, version, line, package.purl)


def _metadata(path: Path) -> str:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            return archive.read(name).decode()
    with tarfile.open(path) as packed:
        file = packed.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert file is not None
        return file.read().decode()


def _linked(path: Path) -> Iterator[Item]:
    """Yield the libraries of others in a wheel of the runtime."""
    if path.suffix != ".whl":
        return
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for described in filter(RUNTIME.fullmatch, names):
            folder = f"{described.rpartition('/')[0]}/"
            digests = {
                name.removeprefix(folder): hashlib.sha256(archive.read(name)).hexdigest()
                for name in names
                if name.startswith(folder)
            }
            versions = json.loads(archive.read(described))["versions"]
            backends = load_rules(Path(), ()).extensions["backend"].values()
            for part in libraries_of(digests, versions, backends):
                if part.name != "modelbuild-runtime":
                    yield Item("library", part.name, part.version, part.license, part.purl, part.files)


def build_tools() -> list[PythonPackage]:
    """Return the installed packages that decide the distributions' bytes: the build system's, those that compile the
    runtime, and their requirements."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    lines = [*project["build-system"]["requires"], *project["project"]["optional-dependencies"]["runtime-build"]]
    found: dict[str, PythonPackage] = {}
    pending = [Requirement(line) for line in (*lines, "build") if not line.startswith("modelbuild")]
    while pending:
        wanted = pending.pop()
        if wanted.name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            installed = metadata.distribution(wanted.name)
            license_ = package_license(wanted.name, installed.version, sys.path)
            found[wanted.name] = PythonPackage(canonicalize_name(wanted.name), installed.version, "", license_)
            pending += map(Requirement, installed.requires or ())
    return [found[name] for name in sorted(found)]


def provenance(root: Path, made: Sequence[Path], tag: str, revision: Revision, builder: str) -> bytes:
    """Return the provenance of the distributions. `tag` is '' for a rehearsal."""
    parameters: Mapping[str, Any] = {"target": "modelbuild", "device": "", **({"tag": tag} if tag else {})}
    compilers = {name: _compiler(name) for name in ("c++", "aarch64-linux-gnu-g++")}
    locks = [File(name, sha256_of(root / name)) for name in LOCKS]
    definition = {
        "buildType": RELEASE_TYPE,
        "externalParameters": parameters,
        "internalParameters": {"actions": [], "compilers": compilers, "sourceDateEpoch": revision.at},
        "resolvedDependencies": [
            commit_entry(revision),
            *(file_entry(each, {}) for each in locks),
            *map(package_entry, build_tools()),
        ],
    }
    return predicate_bytes(
        {path.name: sha256_of(path) for path in made}, definition, {"builder": builder_entry(builder)}
    )


def _compiler(name: str) -> str:
    """Return the first line of a compiler's version; '' if it is not installed."""
    try:
        done = subprocess.run([name, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.partition("\n")[0]


def release_notes(changes: str, made: Iterable[Path], tag: str) -> bytes:
    """Return the notes in Markdown: the changes, and the distributions with their SHA-256."""
    rows = "".join(f"| `{path.name}` | `{sha256_of(path)}` |\n" for path in made)
    return (
        f"# modelbuild {tag.removeprefix('v') or '(rehearsal)'}\n\n{changes}\n\n"
        f"## Files\n\n| file | SHA-256 |\n| --- | --- |\n{rows}\n"
        "Check them with `sha256sum --check SHA256SUMS`. `provenance.intoto.json` states the commit and the build\n"
        "tools, and `NAME.cdx.json` the contents of each file.\n"
    ).encode()


def checksums(files: Iterable[Path]) -> bytes:
    """Return the SHA-256 of files in the form of sha256sum, sorted by name."""
    return "".join(f"{sha256_of(path)}  {path.name}\n" for path in sorted(files)).encode()


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
