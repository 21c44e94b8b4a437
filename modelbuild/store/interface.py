"""The one interface that the rest of modelbuild knows of a store, local or remote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from modelbuild.actions import ActionResult, Digest, Value


class MissingBlob(Exception):
    """A blob is not in the store, or what is there is no longer what its digest says (and was dropped)."""

    def __init__(self, digest: Digest) -> None:
        super().__init__(f"no blob {digest}")
        self.digest = digest


class Store(Protocol):
    """Content-addressed blobs and an action cache. Safe for many threads and for many processes at once.

    A full disk, a missing permission and the like are an EnvironmentProblem.
    """

    def put_bytes(self, data: bytes) -> Digest:
        """Keep some bytes."""

    def put_file(self, path: Path) -> Digest:
        """Keep a file that the caller gives up: it is moved where it can be (same file system, no other hard link),
        else copied; either way it is gone from `path`. Raises ValueError for anything but a plain file, and for a
        file that somebody is still writing to."""

    def put_output(self, path: Path) -> Value:
        """Keep a file or a folder that a step wrote (given up, as in put_file). Symbolic links, sockets and the like
        are refused with a ValueError that names them, before anything is moved."""

    def read_bytes(self, digest: Digest) -> bytes:
        """All bytes of a blob. Raises MissingBlob."""

    def blob_path(self, digest: Digest, executable: bool = False) -> Path:
        """A read-only file with the blob's bytes: the one that place() links. Raises MissingBlob."""

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Those that are not here."""

    def place(self, value: Value, destination: Path) -> None:
        """Lay a value out as a file or folder at a path that does not exist, in a folder that does: hardlinks where
        the file system allows (read-only), else copies. Raises MissingBlob, before anything is made."""

    def get_action(self, key: str, material: Mapping[str, Any] | None = None) -> ActionResult | None:
        """The result under a key, if all its blobs are here or can be expected to come; marks it used. `material`, as
        for put_action, lets a store look elsewhere and remember what it finds."""

    def put_action(self, key: str, result: ActionResult, material: Mapping[str, Any]) -> None:
        """Remember a result, with what its key was made of (for explanations)."""
