"""The manifest that ends a .pte or .ptd that modelbuild linked, with its digest. docs/runtime.md has the format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# A file that has lost one of these still has the other: the key of the entry in the list of named data, which
# executorch writes to the start of a file, and the magic at its end.
KEY = b"modelbuild.manifest"
MAGIC = b"mbmanif1"

_START = 1 << 20

# Behind the JSON: its length, the SHA-256 of all bytes before it, the magic.
_LENGTH = 8
_SEALED = 32 + len(MAGIC)


class Damaged(ValueError):
    """A file has other bytes than it was written with."""


def read_manifest(file: memoryview, verify: bool) -> Mapping[str, Any] | None:
    """Return the JSON of the manifest that ends a file; None where nobody vouches for it.

    Raises Damaged where the file has lost its manifest, the manifest cannot be read or, with `verify`, the file is not
    the one that the manifest's digest is of.
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
