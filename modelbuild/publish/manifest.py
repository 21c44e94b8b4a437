"""Manifests as the OCI image specification 1.1 defines them, with the annotations that ORAS uses.

Equal content has equal manifests: they contain no time, and JSON in canonical form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from modelbuild.errors import UsageError
from modelbuild.paths import PathError, check_path
from modelbuild.publish.content import PROVENANCE, SBOM, SIGNATURE_SUFFIX, Attachment, Content

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
ARTIFACT = "application/vnd.modelbuild.target.v1"
TITLE = "org.opencontainers.image.title"
EXECUTABLE = "dev.modelbuild.executable"
FILE = "application/octet-stream"
EMPTY = b"{}"
# The file name of the manifest where there is no registry.
MANIFEST_FILE = "manifest.json"

Descriptor = Mapping[str, Any]


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def manifest_of(content: Content) -> bytes:
    """Return the manifest of the files: a layer for each, with its path as the title."""
    layers = [
        {
            "mediaType": FILE,
            "digest": f"sha256:{file.sha256}",
            "size": file.size,
            "annotations": {TITLE: file.path, **({EXECUTABLE: "true"} if file.executable else {})},
        }
        for file in content.files
    ]
    return _manifest(ARTIFACT, layers, {"annotations": dict(content.annotations)} if content.annotations else {})


def check_names(content: Content) -> None:
    """Raise UsageError for a file with the name of a document of the published content."""
    own = {MANIFEST_FILE, PROVENANCE, SBOM, *(attachment.name for attachment in content.attachments)}
    for file in content.files:
        if file.path in own:
            raise UsageError(f"the target has a file '{file.path}', which is the name of a document about it")


def is_path(path: object) -> bool:
    """Return whether a path stays in its folder."""
    try:
        check_path(path)
    except PathError:
        return False
    return True


def is_manifest(data: bytes) -> bool:
    """Return whether a manifest is one of modelbuild's."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("artifactType") == ARTIFACT


def written(manifest: bytes) -> set[str]:
    """Return the paths of a manifest's files and of documents about them; none if it is not such a manifest."""
    try:
        paths = [str(layer["annotations"][TITLE]) for layer in json.loads(manifest)["layers"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return set()
    paths = [path for path in paths if is_path(path)]
    documents = (PROVENANCE, SBOM)
    signatures = (f"{path.partition('/')[0]}{SIGNATURE_SUFFIX}" for path in (*paths, *documents))
    return {*paths, *signatures, *documents}


def referrer_of(attachment: Attachment, subject: Descriptor) -> bytes:
    """Return the manifest of a document about another manifest."""
    title = {"annotations": {TITLE: attachment.name}}
    layer = {**descriptor(attachment.media_type, attachment.data), **title}
    return _manifest(attachment.kind, [layer], {"subject": subject, **title})


def descriptor(media_type: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}


def index_of(manifests: Sequence[Descriptor]) -> bytes:
    return _canonical({"schemaVersion": 2, "mediaType": INDEX, "manifests": list(manifests)})


def _manifest(artifact_type: str, layers: Sequence[Descriptor], more: Mapping[str, Any]) -> bytes:
    config = {**descriptor("application/vnd.oci.empty.v1+json", EMPTY), "data": "e30="}
    made = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": artifact_type,
        "config": config,
        "layers": layers,
    }
    return _canonical({**made, **more})


def _canonical(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
