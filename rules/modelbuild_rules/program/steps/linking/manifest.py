"""Write the manifest at the end of a linked file: facts about the file, and its digest. Torch-free.

The last bytes of the file are JSON in UTF-8, the JSON's length (u64, little-endian), the SHA-256 of all bytes before
the digest, and the magic. They are a segment of the file and an entry of its named data, so that ExecuTorch keeps them,
and a reader that finds the entry knows that the manifest must be there. docs/reference/program-files.md has the JSON;
modelbuild_runtime/files/manifest.py and runtime/src/files/manifest.cpp read it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import Manifest

KEY = "modelbuild.manifest"
MAGIC = b"mbmanif1"

_LENGTH = 8
_DIGEST = 32


def key_beside(keys: Iterable[str]) -> str:
    """Return the manifest's key for a .ptd with these keys. It is unique, as ExecuTorch rejects two files that share a
    key."""
    return f"{KEY}.{hashlib.sha256(json.dumps(sorted(keys)).encode()).hexdigest()[:16]}"


def unsealed(facts: Manifest) -> bytes:
    """Return a manifest with zeros as its digest."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()
    return text + len(text).to_bytes(_LENGTH, "little") + bytes(_DIGEST) + MAGIC


def seal(path: Path) -> None:
    """Write the digest into the manifest at the end of a file."""
    covered = path.stat().st_size - _DIGEST - len(MAGIC)
    digest = hashlib.sha256()
    with path.open("r+b") as file:
        while covered:
            chunk = file.read(min(covered, 8 << 20))
            digest.update(chunk)
            covered -= len(chunk)
        file.write(digest.digest())
