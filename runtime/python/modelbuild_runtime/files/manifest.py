"""Read the manifest, with a digest, at the end of a .pte or .ptd that modelbuild linked.

docs/reference/program-files.md describes the format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Two marks, so that a file that lost one mark still has the other: the key in the list of named data, which executorch
# writes at the start of a file, and the magic at its end.
KEY = b"modelbuild.manifest"
MAGIC = b"mbmanif1"

_START = 1 << 20

# After the JSON: its length, the SHA-256 of all bytes before the digest, the magic.
_LENGTH = 8
_SEALED = 32 + len(MAGIC)


class Damaged(ValueError):
    """Raised for a file whose bytes changed after it was written."""


def read_manifest(file: memoryview, verify: bool) -> Mapping[str, Any] | None:
    """Return the JSON of the manifest at the end of a file; None if the file has no manifest.

    Raises Damaged if the file lost its manifest, the manifest cannot be read or, with `verify`, the file's digest is
    not the manifest's.
    """
    end = len(file) - _SEALED - _LENGTH
    if end < 0 or bytes(file[-len(MAGIC) :]) != MAGIC:
        if KEY in bytes(file[:_START]):
            raise Damaged("its manifest is cut off or overwritten")
        return None
    with file[: end + _LENGTH] as covered:
        if verify and hashlib.sha256(covered).digest() != bytes(file[-_SEALED : -len(MAGIC)]):
            raise Damaged("its SHA-256 is not the one in its manifest")
    size = int.from_bytes(file[end : end + _LENGTH], "little")
    try:
        found = json.loads(bytes(file[max(end - size, 0) : end]))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Damaged("its manifest cannot be read")
    return found
