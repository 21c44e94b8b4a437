"""The interface of a remote cache, for any protocol. Blocking calls, safe from many threads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from modelbuild.actions import Digest


class Cache(Protocol):
    """Blobs by digest, and REAPI ActionResult messages by the digest of an REAPI Action.

    Every call is one attempt and raises RemoteProblem when it fails. Downloads are unchecked: the caller compares them
    with their digests.

    name         the address for display
    batch_size   total bytes of the blobs in one call of read_small and write_small
    """

    name: str
    batch_size: int

    def get_action(self, action: Digest) -> Any | None:
        """Return an ActionResult, or None."""

    def put_action(self, action: Digest, result: Any) -> None:
        """Store an ActionResult; all its blobs must be stored already."""

    def missing(self, digests: Collection[Digest]) -> set[Digest]:
        """Return the digests whose blobs are missing."""

    def read_small(self, digests: Collection[Digest]) -> dict[Digest, bytes]:
        """Return blobs, without missing blobs."""

    def read(self, digest: Digest, sink: BinaryIO) -> None:
        """Write a blob's bytes from position sink.tell() on, never more than the digest's size. After a RemoteProblem
        `sink` contains the received bytes. Raises RemoteProblem 'missing' for a missing blob."""

    def write_small(self, blobs: Mapping[Digest, bytes]) -> None:
        """Store some blobs."""

    def write(self, digest: Digest, source: Path) -> None:
        """Store a file, in pieces."""

    def close(self) -> None:
        """Close the connections."""
