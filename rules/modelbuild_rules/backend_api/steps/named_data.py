"""Named data of a program or a compiled partition: a folder of blobs, and a list.

`named.json` is a list of entries (`NamedEntry` of program/documents.py). Equal blobs share a file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import NamedEntry, TensorLayout

LIST = "named.json"


@dataclass(frozen=True, slots=True)
class Named:
    """A blob in a file, its key, and the other fields of its `NamedEntry`."""

    key: str
    path: Path
    alignment: int = 1
    external: bool = False
    layout: TensorLayout | None = None


class NamedBytes(NamedTuple):
    """A blob in memory, with the fields of its `NamedEntry`."""

    key: str
    data: bytes
    alignment: int
    external: bool
    layout: TensorLayout | None = None


def write_named(folder: Path, entries: Iterable[NamedBytes]) -> None:
    """Write entries, in their order, to an existing folder."""
    described: list[NamedEntry] = []
    files: dict[bytes, str] = {}
    for key, data, alignment, external, layout in entries:
        digest = hashlib.sha256(data).digest()
        if digest not in files:
            files[digest] = f"named.{len(files)}.bin"
            (folder / files[digest]).write_bytes(data)
        described.append(
            {"key": key, "file": files[digest], "alignment": alignment, "external": external, "layout": layout}
        )
    (folder / LIST).write_text(json.dumps(described, indent=1) + "\n")


def read_named(folder: Path) -> tuple[Named, ...]:
    """Return the entries that `write_named` wrote, without reading the blobs."""
    entries: list[NamedEntry] = json.loads((folder / LIST).read_text())
    return tuple(
        Named(entry["key"], folder / entry["file"], entry["alignment"], entry["external"], entry["layout"])
        for entry in entries
    )
