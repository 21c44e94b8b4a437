"""The JSON of releases, key by key. Only type checkers import this."""

from __future__ import annotations

from typing import TypedDict


class ReleasedFile(TypedDict):
    """A published file, by its path."""

    path: str
    sha256: str
    bytes: int


class ReleaseDocument(TypedDict):
    """release.json. `version` is the format's version, `release` the files' version; `notes` is the name of a file, or
    ''."""

    version: int
    name: str
    release: str
    notes: str
    files: list[ReleasedFile]
