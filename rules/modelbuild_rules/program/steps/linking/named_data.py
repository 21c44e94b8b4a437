"""Named data of a program or a compiled partition: a folder of blobs and a list that describes them.

`named.json` is a list of {key, file, alignment, external, layout}: `file` is relative to the folder; `external` is true
if the data may be outside the .pte (weights may, code may not); `layout` is {scalar_type, sizes, dim_order} of a
tensor, or null. Equal blobs share a file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = "named.json"


@dataclass(frozen=True, slots=True)
class Named:
    """A blob and its key."""

    key: str
    path: Path
    alignment: int = 1
    external: bool = False
    layout: Mapping[str, Any] | None = None


def write_named(folder: Path, entries: Iterable[tuple[str, bytes, int, bool, Mapping[str, Any] | None]]) -> None:
    """Write (key, bytes, alignment, external, layout) entries, in their order, to an existing folder."""
    described = []
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
    return tuple(
        Named(entry["key"], folder / entry["file"], entry["alignment"], entry["external"], entry["layout"])
        for entry in json.loads((folder / LIST).read_text())
    )
