"""Find a file in a manifest of a registry."""

from __future__ import annotations

import hashlib
import http.client
import json
from typing import Any

from modelbuild.registry.address import RegistryAddress
from modelbuild.registry.client import MOST, Registry, RegistryProblem

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_TITLE = "org.opencontainers.image.title"
# The maximum number of files that a message names.
_NAMED = 5


def open_file(address: RegistryAddress, sha256: str) -> http.client.HTTPResponse:
    """Return the response with the file of a manifest that has a SHA-256. Raises RegistryProblem, also for a manifest
    with another digest or of another kind, and for a manifest without this file."""
    registry = Registry(address)
    with registry.send("GET", f"/manifests/{address.digest}", {"Accept": f"{MANIFEST}, {_INDEX}"}) as answer:
        text = answer.read(MOST)
    found = f"sha256:{hashlib.sha256(text).hexdigest()}"
    if found != address.digest:
        raise RegistryProblem(f"the registry sent a manifest with the digest {found}")
    layers = _layers(text)
    if not any(digest == f"sha256:{sha256}" for digest, _ in layers):
        names = ", ".join(f"{title} ({digest})" for digest, title in layers[:_NAMED])
        more = f" and {len(layers) - _NAMED} more" if len(layers) > _NAMED else ""
        raise RegistryProblem(f"the manifest has no file with the SHA-256 {sha256}; it has {names or 'none'}{more}")
    return registry.send("GET", f"/blobs/sha256:{sha256}")


def _layers(text: bytes) -> list[tuple[str, str]]:
    """Return the digest and the title of each file of a manifest."""
    try:
        manifest: Any = json.loads(text)
        kind = manifest.get("mediaType", MANIFEST)
        if kind != MANIFEST:
            raise RegistryProblem(f"the digest names {str(kind)[:100]!r}; expected {MANIFEST}")
        layers = [(each["digest"], each.get("annotations") or {}) for each in manifest["layers"]]
        return [(str(digest), str(annotations.get(_TITLE, "?"))) for digest, annotations in layers]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RegistryProblem("the digest names no manifest that can be read") from None
