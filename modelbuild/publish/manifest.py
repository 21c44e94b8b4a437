"""Manifests as the OCI image specification 1.1 defines them, with the annotations that ORAS uses.

Equal content has equal manifests: they contain no time, and JSON in canonical form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from modelbuild.publish.content import Attachment, Content

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
ARTIFACT = "application/vnd.modelbuild.target.v1"
TITLE = "org.opencontainers.image.title"
EXECUTABLE = "dev.modelbuild.executable"
FILE = "application/octet-stream"
EMPTY = b"{}"

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
