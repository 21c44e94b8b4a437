"""The libraries in a bundle, for its SBOM: versions are those of its manifest, licences those of runtime/licenses."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.api import Artifact, Component, Contents

if TYPE_CHECKING:
    from modelbuild_rules.bundle.documents import BundleManifest


# Projects with files in bundles: `name`, `license`, `files` (patterns of their paths), and for a project whose version
# is in the manifest, `version` (its name there) and `purl`. The others are parts of another project's file, which pins
# their version. A backend's own are in its folder.
_PARTS = (Path(__file__).with_name("parts.json"), *sorted(Path(__file__).parents[1].glob("backends/*/parts.json")))


def bundle_contents(bundle: Artifact) -> Contents:
    """Return the contents of a bundle: a folder, or a .tar.gz of one."""
    return Contents((bundle,), _components)


def _components(bundle: Mapping[str, Path]) -> list[Component]:
    manifest: BundleManifest = json.loads(_manifest(bundle))
    digests = {path: entry["sha256"] for path, entry in manifest["files"].items()}
    found = {each.name: each for each in parts_of(digests, manifest["versions"])}
    for path, library in manifest["libraries"].items():
        name = path.rpartition("/")[2]
        files = {path: digests[path]}
        found[name] = Component(name, library["version"], "library", library["license"], files=files)
    return list(found.values())


def parts_of(digests: Mapping[str, str], versions: Mapping[str, str]) -> Iterator[Component]:
    """Yield the projects with files in a runtime, of its files' SHA-256 by path and its `versions`."""
    for part in (part for path in _PARTS for part in json.loads(path.read_bytes())):
        files = {
            path: sha256 for path, sha256 in digests.items() if any(fnmatch(path, pattern) for pattern in part["files"])
        }
        if files:
            version = versions.get(part.get("version"), "")
            purl = f"{part['purl']}@{version}" if version else ""
            yield Component(part["name"], version, "library", part["license"], purl, files)


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
