"""The libraries in a bundle, for its SBOM: versions are those of its manifest, licences those of runtime/licenses."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
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
    found: dict[str, Component] = {}
    for part in (part for path in _PARTS for part in json.loads(path.read_bytes())):
        files = {
            path: entry["sha256"]
            for path, entry in manifest["files"].items()
            if any(fnmatch(path, pattern) for pattern in part["files"])
        }
        if files:
            version = manifest["versions"].get(part.get("version"), "")
            purl = f"{part['purl']}@{version}" if version else ""
            found[part["name"]] = Component(part["name"], version, "library", part["license"], purl, files)
    for path, library in manifest["libraries"].items():
        files = {path: manifest["files"][path]["sha256"]}
        name = path.rpartition("/")[2]
        found[name] = Component(name, library["version"], "library", library["licence"], files=files)
    return list(found.values())


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
