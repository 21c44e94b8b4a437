"""What a remote cache can do, whatever protocol it speaks. Blocking calls, safe from many threads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from modelbuild.actions import Digest


class Cache(Protocol):
    """Blobs by digest, and REAPI ActionResult messages by the digest of an REAPI Action.

    Every call is one attempt and raises RemoteProblem when it fails. What is read has not been checked: the caller
    compares it with its digest.

    name         the address, as a user may see it
    batch_size   bytes that read_small and write_small take at once, all blobs together
    """

    name: str
    batch_size: int

    def get_action(self, action: Digest) -> Any | None:
        """An ActionResult, or None."""

    def put_action(self, action: Digest, result: Any) -> None:
        """Keep an ActionResult whose blobs are all there."""

    def missing(self, digests: Collection[Digest]) -> set[Digest]:
        """Those that are not there."""

    def read_small(self, digests: Collection[Digest]) -> dict[Digest, bytes]:
        """Those of some blobs that are there."""

    def read(self, digest: Digest, sink: BinaryIO) -> None:
        """Write a blob's bytes from position sink.tell() on; more than the digest's size are never taken. After a
        RemoteProblem `sink` holds what did arrive. `missing` when it is not there."""

    def write_small(self, blobs: Mapping[Digest, bytes]) -> None:
        """Bring some blobs there."""

    def write(self, digest: Digest, source: Path) -> None:
        """Bring a file there, in pieces."""

    def close(self) -> None:
        """Let go of connections."""
