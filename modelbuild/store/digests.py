"""Digests of bytes, of files, and of values (a file or folder by content)."""

from __future__ import annotations

import json
import os
from io import FileIO
from pathlib import Path

from modelbuild.actions import Digest, Value
from modelbuild.store.codec import encode_value

# Below this many bytes one read is faster than file_digest, which allocates a buffer of 256 KiB.
_SMALL = 1 << 16


class FileChanged(ValueError):
    """A file was written to while it was being read."""


def digest_bytes(data: bytes) -> Digest:
    import hashlib

    return Digest(hashlib.sha256(data).hexdigest(), len(data))


def digest_file(path: str | Path) -> Digest:
    """Return the digest of a file's bytes, read once. Raises OSError, and FileChanged if it is written to meanwhile."""
    with FileIO(os.fspath(path)) as file:
        return digest_open(file)


def digest_open(file: FileIO) -> Digest:
    """Return the digest of a file that is open at its start, as digest_file. Reads in blocks, without the interpreter's
    lock."""
    import hashlib

    before = os.fstat(file.fileno())
    sha = hashlib.sha256(file.readall()) if before.st_size <= _SMALL else hashlib.file_digest(file, "sha256")
    after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise FileChanged(f"{os.path.basename(str(file.name))} was written to while it was being read")
    return Digest(sha.hexdigest(), after.st_size)


def value_digest(value: Value) -> str:
    """Return 64 hex digits that are equal only for equal values: kind, paths, bytes and executable bits."""
    return digest_bytes(json.dumps(encode_value(value), separators=(",", ":")).encode()).hash
