"""The libraries in a bundle, for its SBOM: versions from its manifest, licences from runtime/licenses."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.api import Artifact, Component, Contents, Extension
from modelbuild_rules.backend_api.backend import Backend, Library

if TYPE_CHECKING:
    from modelbuild_rules.bundle.documents import BundleManifest


_LIBRARIES = tuple(Library(**each) for each in json.loads(Path(__file__).with_name("libraries.json").read_bytes()))
"""The projects with files in every runtime. Backends declare additional projects."""


def bundle_contents(bundle: Artifact, backends: Iterable[Extension]) -> Contents:
    """Return the contents of a bundle: a folder, or a packed folder (.tar.gz)."""
    return Contents((bundle,), partial(_components, tuple(backends)))


def _components(backends: Sequence[Extension], bundle: Mapping[str, Path]) -> list[Component]:
    manifest: BundleManifest = json.loads(_manifest(bundle))
    digests = {path: entry["sha256"] for path, entry in manifest["files"].items()}
    found = {each.name: each for each in libraries_of(digests, manifest["versions"], backends)}
    for path, library in manifest["libraries"].items():
        name = path.rpartition("/")[2]
        files = {path: digests[path]}
        found[name] = Component(name, library["version"], "library", library["license"], files=files)
    return list(found.values())


def libraries_of(
    digests: Mapping[str, str], versions: Mapping[str, str], backends: Iterable[Extension]
) -> Iterator[Component]:
    """Yield the projects with files in a runtime, given its files' SHA-256 by path and its `versions`."""
    own = (each for backend in backends if isinstance(backend, Backend) for each in backend.libraries)
    for library in (*_LIBRARIES, *own):
        files = {path: digest for path, digest in digests.items() if any(map(partial(fnmatch, path), library.files))}
        if files:
            version = versions.get(library.version, "")
            purl = f"{library.purl}@{version}" if version else ""
            yield Component(library.name, version, "library", library.license, purl, files)


def _manifest(bundle: Mapping[str, Path]) -> bytes:
    if "" not in bundle:
        return bundle["manifest.json"].read_bytes()
    with tarfile.open(bundle[""], "r:gz") as packed:
        for entry in packed:
            if entry.name.endswith("/manifest.json") and entry.name.count("/") == 1:
                file = packed.extractfile(entry)
                assert file is not None
                return file.read()
    raise FileNotFoundError("manifest.json")
