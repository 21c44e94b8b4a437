"""A remote cache in an object store, or in a folder, in the layout of Bazel's HTTP cache: ac/<sha256>, cas/<sha256>."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from modelbuild.actions import Digest
from modelbuild.remote.messages import message, missing_extra
from modelbuild.remote.problems import Kind, RemoteProblem
from modelbuild.workspace.remote_address import Address
from modelbuild.workspace.remote_settings import RemoteSettings

# Concurrent requests of a batch, since each blob is a request of its own.
_AT_ONCE = 8
_BATCH = 16 << 20
# A part of a big upload; object stores require at least 5 MiB and at most 10,000 parts.
_PART = 16 << 20
_MAX_RESULT = 16 << 20
# Prefixes of the environment variables that obstore itself reads.
_VARIABLES = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}


class ObjectCache:
    """Implements Cache; see there. Credentials for an object store come from its usual environment variables."""

    def __init__(self, address: Address, settings: RemoteSettings) -> None:
        try:
            from obstore import store
        except ImportError:
            raise missing_extra("obstore") from None
        self.name = str(address)
        self.batch_size = _BATCH
        self._prefix = ""
        if address.scheme == "file":
            # The first upload creates folders: a store rooted in the folder would have to create it now.
            self._store = store.LocalStore()
            self._prefix = f"{address.path.lstrip('/')}/"
        else:
            # The circuit breaker retries; here one attempt is one request.
            seconds = timedelta(seconds=settings.timeout)
            self._store = store.from_url(
                str(address),
                retry_config={"max_retries": 0, "retry_timeout": seconds},
                client_options={
                    "connect_timeout": seconds,
                    "timeout": timedelta(days=1),
                    "read_timeout": seconds,
                    # With explicit options, obstore does not read this variable itself.
                    "allow_http": os.environ.get(f"{_VARIABLES[address.scheme]}_ALLOW_HTTP", "").lower() == "true",
                },
            )
        self._pool = ThreadPoolExecutor(_AT_ONCE, "objects")

    def get_action(self, action: Digest) -> Any | None:
        import obstore
        from google.protobuf.message import DecodeError

        try:
            with _translated():
                answer = obstore.get(self._store, f"{self._prefix}ac/{action.hash}")
                if answer.meta["size"] > _MAX_RESULT:
                    raise RemoteProblem("wrong", "an action result that is too big")
                return message("ActionResult").FromString(bytes(answer.bytes()))
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
        with _translated():
            options = {"range": (start, digest.size)}
            for data in obstore.get(self._store, self._blob(digest), options=options).stream(min_chunk_size=1 << 20):
                if sink.tell() + len(data) > digest.size:
                    raise RemoteProblem("wrong", "it sent more bytes than the blob has")
                sink.write(data)
        if sink.tell() != digest.size:
            raise RemoteProblem("down", f"it sent {sink.tell()} of {digest.size} bytes")

    def write_small(self, blobs: Mapping[Digest, bytes]) -> None:
        for _ in self._pool.map(lambda item: self._put(self._blob(item[0]), item[1]), blobs.items()):
            pass

    def write(self, digest: Digest, source: Path) -> None:
        import obstore

        with _translated():
            obstore.put(self._store, self._blob(digest), source, chunk_size=_PART, max_concurrency=2)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _has(self, digest: Digest) -> bool:
        import obstore

        try:
            with _translated():
                return bool(obstore.head(self._store, self._blob(digest))["size"] == digest.size)
        except RemoteProblem as problem:
            if problem.kind == "missing":
                return False
            raise

    def _get(self, digest: Digest) -> bytes | None:
        import obstore

        try:
            with _translated():
                answer = obstore.get(self._store, self._blob(digest))
                if answer.meta["size"] != digest.size:
                    raise RemoteProblem("wrong", f"it has another size for {digest}")
                return bytes(answer.bytes())
        except RemoteProblem as problem:
            if problem.kind == "missing":
                return None
            raise

    def _blob(self, digest: Digest) -> str:
        return f"{self._prefix}cas/{digest.hash}"

    def _put(self, path: str, data: bytes) -> None:
        import obstore

        with _translated():
            obstore.put(self._store, path, data)


@contextmanager
def _translated() -> Iterator[None]:
    """Raise RemoteProblem for obstore's errors."""
    from obstore import exceptions

    try:
        yield
    except FileNotFoundError:
        raise RemoteProblem("missing", "not there") from None
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError) as error:
        raise RemoteProblem("refused", _line(error)) from None
    except (exceptions.BaseError, OSError) as error:
        text = _line(error)
        kind: Kind = "full" if "No space left" in text else "slow" if "timed out" in text else "down"
        raise RemoteProblem(kind, text) from None


def _line(error: Exception) -> str:
    """Return an error's text in one short line, without the dump of the request after it."""
    return " ".join(str(error).partition("\n\n")[0].split())[:200]
