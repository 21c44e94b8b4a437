"""A remote cache in an object store, or in a folder, in the layout of Bazel's HTTP cache: ac/<sha256>, cas/<sha256>."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from modelbuild.actions import Digest
from modelbuild.remote.messages import message, missing_extra
from modelbuild.remote.object_store import open_object_store, translated
from modelbuild.remote.problems import RemoteProblem
from modelbuild.transfer import Pace
from modelbuild.workspace.remote_address import Address
from modelbuild.workspace.remote_settings import RemoteSettings

# Concurrent requests of a batch, because each blob is a separate request.
_AT_ONCE = 8
_BATCH = 16 << 20
# A part of a big upload; object stores require at least 5 MiB and at most 10,000 parts.
_PART = 16 << 20
_MAX_RESULT = 16 << 20


class ObjectCache:
    """Implements Cache; see there. Credentials for an object store come from its usual environment variables."""

    def __init__(self, address: Address, settings: RemoteSettings) -> None:
        self.name = str(address)
        self.batch_size = _BATCH
        self._timeout = settings.timeout
        # The circuit breaker retries; here one attempt is one request.
        try:
            self._store, self._prefix = open_object_store(address, settings.timeout, retries=0)
        except ImportError:
            raise missing_extra("obstore") from None
        self._pool = ThreadPoolExecutor(_AT_ONCE, "objects")

    def get_action(self, action: Digest) -> Any | None:
        import obstore
        from google.protobuf.message import DecodeError

        try:
            with translated():
                answer = obstore.get(self._store, f"{self._prefix}ac/{action.hash}")
                if answer.meta["size"] > _MAX_RESULT:
                    raise RemoteProblem("wrong", "an action result that is too big")
                return message("ActionResult").FromString(b"".join(self._pieces(answer, _MAX_RESULT)))
        except DecodeError:
            raise RemoteProblem("wrong", "an action result that is no message") from None
        except RemoteProblem as problem:
            if problem.kind == "missing":
                return None
            raise

    def put_action(self, action: Digest, result: Any) -> None:
        self._put(f"{self._prefix}ac/{action.hash}", result.SerializeToString(deterministic=True))

    def missing(self, digests: Collection[Digest]) -> set[Digest]:
        found = zip(digests, self._pool.map(self._has, digests), strict=True)
        return {digest for digest, there in found if not there}

    def read_small(self, digests: Collection[Digest]) -> dict[Digest, bytes]:
        found = zip(digests, self._pool.map(self._get, digests), strict=True)
        return {digest: data for digest, data in found if data is not None}

    def read(self, digest: Digest, sink: BinaryIO) -> None:
        import obstore

        start = sink.tell()
        if start == digest.size:
            return
        with translated():
            options = {"range": (start, digest.size)}
            answer = obstore.get(self._store, self._blob(digest), options=options)
            for data in self._pieces(answer, digest.size - start):
                sink.write(data)
        if sink.tell() != digest.size:
            raise RemoteProblem("down", f"it sent {sink.tell()} of {digest.size} bytes")

    def write_small(self, blobs: Mapping[Digest, bytes]) -> None:
        for _ in self._pool.map(lambda item: self._put(self._blob(item[0]), item[1]), blobs.items()):
            pass

    def write(self, digest: Digest, source: Path) -> None:
        import obstore

        with translated():
            obstore.put(self._store, self._blob(digest), source, chunk_size=_PART, max_concurrency=2)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _has(self, digest: Digest) -> bool:
        import obstore

        try:
            with translated():
                return bool(obstore.head(self._store, self._blob(digest))["size"] == digest.size)
        except RemoteProblem as problem:
            if problem.kind == "missing":
                return False
            raise

    def _get(self, digest: Digest) -> bytes | None:
        import obstore

        try:
            with translated():
                answer = obstore.get(self._store, self._blob(digest))
                if answer.meta["size"] != digest.size:
                    raise RemoteProblem("wrong", f"it has another size for {digest}")
                return b"".join(self._pieces(answer, digest.size))
        except RemoteProblem as problem:
            if problem.kind == "missing":
                return None
            raise

    def _pieces(self, answer: Any, most: int) -> Iterator[bytes]:
        """Yield the bytes of an answer. Raises RemoteProblem if there are more than `most`, or if it is too slow."""
        pace = Pace(self._timeout)
        # obstore waits for whole chunks, so they are as small as they come.
        for data in answer.stream(min_chunk_size=0):
            most -= len(data)
            if most < 0:
                raise RemoteProblem("wrong", "it sent more bytes than the blob has")
            pace.moved(len(data))
            pace.check()
            yield bytes(data)

    def _blob(self, digest: Digest) -> str:
        return f"{self._prefix}cas/{digest.hash}"

    def _put(self, path: str, data: bytes) -> None:
        import obstore

        with translated():
            obstore.put(self._store, path, data)
