"""The manifest that ends a linked file: what modelbuild says of it, and the digest of all of it. Torch-free.

The last bytes of the file are JSON in UTF-8, the JSON's length (u64, little-endian), the SHA-256 of every byte of the
file up to there, and the magic. They are a segment of the file and an entry of its named data, so that ExecuTorch
carries them along, and a reader that finds the entry knows that they have to be there. docs/runtime.md describes the
JSON; modelbuild_runtime/manifest.py and runtime/src/manifest.cpp read it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

KEY = "modelbuild.manifest"
MAGIC = b"mbmanif1"

_LENGTH = 8
_DIGEST = 32


def key_beside(keys: Iterable[str]) -> str:
    """Return the manifest's key in a .ptd with these keys: ExecuTorch refuses two files that share a key."""
    return f"{KEY}.{hashlib.sha256(json.dumps(sorted(keys)).encode()).hexdigest()[:16]}"


def unsealed(said: Mapping[str, Any]) -> bytes:
    """Return a manifest whose digest is still zeros."""
    text = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    return text + len(text).to_bytes(_LENGTH, "little") + bytes(_DIGEST) + MAGIC


def seal(path: Path) -> None:
    """Put the digest into the manifest that ends a file."""
    covered = path.stat().st_size - _DIGEST - len(MAGIC)
    digest = hashlib.sha256()
    with path.open("r+b") as file:
        while covered:
            chunk = file.read(min(covered, 8 << 20))
            digest.update(chunk)
            covered -= len(chunk)
        file.write(digest.digest())
