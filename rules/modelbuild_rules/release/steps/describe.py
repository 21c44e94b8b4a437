"""List the files of a release, with their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.step import Step

if TYPE_CHECKING:
    from modelbuild_rules.release.documents import ReleasedFile, ReleaseDocument

VERSION = 1


def run(step: Step) -> None:
    """Write release.json. Params: name, version."""
    notes = list(step.inputs.get("notes", ()))
    paths = dict.fromkeys([*step.inputs["artifacts"], *notes])
    document: ReleaseDocument = {
        "version": VERSION,
        "name": step.params["name"],
        "release": step.params["version"],
        "notes": notes[0].name if notes else "",
        "files": sorted((file for path in paths for file in _files(path, path.name)), key=lambda file: file["path"]),
    }
    step.outputs["release"].write_text(json.dumps(document, indent=1) + "\n")


def _files(path: Path, name: str) -> Iterator[ReleasedFile]:
    if path.is_dir():
        for each in path.iterdir():
            yield from _files(each, f"{name}/{each.name}")
        return
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        yield {"path": name, "sha256": sha256, "bytes": file.tell()}
