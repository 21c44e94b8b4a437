"""The interface of a store, local or remote, for the rest of modelbuild."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol

from modelbuild.actions import ActionResult, Digest, Material, Value


class MissingBlob(Exception):
    """A blob is not in the store, or was damaged and has been deleted."""

    def __init__(self, digest: Digest) -> None:
        super().__init__(f"no blob {digest}")
        self.digest = digest


class Store(Protocol):
    """Content-addressed blobs and an action cache. Safe for many threads and processes at once.

    A full disk, a missing permission and similar problems raise EnvironmentProblem.
    """

    @property
    def fetched(self) -> Collection[str]:
        """Return the keys of the results that get_action() found in another cache."""

    def put_bytes(self, data: bytes) -> Digest:
        """Store bytes."""

    def put_file(self, path: Path) -> Digest:
        """Move a file into the store: it is renamed where possible (same file system, no other hard link), else copied;
        in either case it no longer exists at `path`. Raises ValueError for anything but a plain file, and for a file
        that another process is still writing."""

    def put_output(self, path: Path) -> Value:
        """Move a file or folder that a step wrote into the store, as put_file. Raises ValueError, with the name, for
        symbolic links, sockets and other special files, before anything is moved."""

    def read_bytes(self, digest: Digest) -> bytes:
        """Return all bytes of a blob. Raises MissingBlob."""

    def blob_path(self, digest: Digest, executable: bool = False) -> Path:
        """Return the read-only file with the blob's bytes that place() links. Raises MissingBlob."""

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the digests whose blobs are not in the store."""

    def place(self, value: Value, destination: Path) -> None:
        """Lay out a value as a file or folder at a path that does not exist, in a folder that does: hard links where
        the file system allows (read-only), else copies. Raises MissingBlob, before anything is created."""

    def get_action(self, key: str, material: Material | None = None) -> ActionResult | None:
        """Return the result for a key, if all its blobs are here or can be fetched, and mark it used. With `material`,
        as for put_action, a store can look in other caches and store a found result."""

    def put_action(self, key: str, result: ActionResult, material: Material) -> None:
        """Store a result, with the contents of its key (for explanations)."""
