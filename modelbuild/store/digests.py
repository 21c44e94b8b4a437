"""Digests: of bytes, of files, and of values (a file or a folder by content)."""

from __future__ import annotations

import json
import os
from io import FileIO
from pathlib import Path

from modelbuild.actions import Digest, Value
from modelbuild.store.codec import encode_value

# Below this many bytes one read is quicker than file_digest, which sets up a buffer of 256 KiB.
_SMALL = 1 << 16


class FileChanged(ValueError):
    """A file was written to while it was being read."""


def digest_bytes(data: bytes) -> Digest:
    import hashlib

    return Digest(hashlib.sha256(data).hexdigest(), len(data))


def digest_file(path: Path) -> Digest:
    """The digest of a file's bytes, read once. Raises OSError, and FileChanged when it is being written to."""
    with FileIO(os.fspath(path)) as file:
        return digest_open(file)


def digest_open(file: FileIO) -> Digest:
    """As digest_file, of a file open at its start. Reads in blocks, without the interpreter's lock."""
    import hashlib

    before = os.fstat(file.fileno())
    sha = hashlib.sha256(file.readall()) if before.st_size <= _SMALL else hashlib.file_digest(file, "sha256")
    after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise FileChanged(f"{os.path.basename(str(file.name))} was written to while it was being read")
    return Digest(sha.hexdigest(), after.st_size)


def value_digest(value: Value) -> str:
    """64 hex digits that two values share only when they are the same: kind, paths, bytes and executable bits."""
    return digest_bytes(json.dumps(encode_value(value), separators=(",", ":")).encode()).hash
