"""A remote cache over HTTP, compatible with Bazel's: GET, HEAD and PUT of /ac/<sha256> and /cas/<sha256>."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from modelbuild.actions import Digest
from modelbuild.errors import EnvironmentProblem
from modelbuild.remote.messages import message
from modelbuild.remote.problems import Kind, RemoteProblem
from modelbuild.remote.token import AccessToken
from modelbuild.transfer import Connection, SecureConnection, TooSlow
from modelbuild.workspace.remote_address import Address
from modelbuild.workspace.remote_settings import RemoteSettings, Security

T = TypeVar("T")

# Concurrent requests of a batch, because each blob is a separate request.
_AT_ONCE = 8
_BATCH = 16 << 20
_PIECE = 256 << 10
_MAX_RESULT = 16 << 20
_KINDS: dict[int, Kind] = {
    401: "refused",
    403: "refused",
    405: "refused",
    407: "refused",
    408: "slow",
    413: "big",
    501: "refused",
    504: "slow",
    507: "full",
}


class HttpCache:
    """Implements Cache; see there. Each thread keeps a connection; redirects are not followed."""

    def __init__(self, address: Address, settings: RemoteSettings) -> None:
        self.name = str(address)
        self.batch_size = _BATCH
        self._address = address
        self._timeout = settings.timeout
        self._token = AccessToken(settings.security)
        self._tls = _context(settings.security) if address.scheme == "https" else None
        self._own = threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._closed = False
        self._pool = ThreadPoolExecutor(_AT_ONCE, "http")

    def get_action(self, action: Digest) -> Any | None:
        from google.protobuf.message import DecodeError

        data = self._get(f"ac/{action.hash}", _MAX_RESULT)
        try:
            return None if data is None else message("ActionResult").FromString(data)
        except DecodeError:
            raise RemoteProblem("wrong", "an action result that is no message") from None

    def put_action(self, action: Digest, result: Any) -> None:
        data = result.SerializeToString(deterministic=True)
        self._request("PUT", f"ac/{action.hash}", _stored, data, len(data))

    def missing(self, digests: Collection[Digest]) -> set[Digest]:
        found = zip(digests, self._pool.map(self._has, digests), strict=True)
        return {digest for digest, there in found if not there}

    def read_small(self, digests: Collection[Digest]) -> dict[Digest, bytes]:
        found = zip(digests, self._pool.map(lambda d: self._get(f"cas/{d.hash}", d.size), digests), strict=True)
        return {digest: data for digest, data in found if data is not None}

    def read(self, digest: Digest, sink: BinaryIO) -> None:
        start = sink.tell()

        def take(answer: http.client.HTTPResponse) -> None:
            if answer.status == 404:
                raise RemoteProblem("missing", "not there")
            # A server without range requests sends the whole blob.
            if answer.status == 200:
                sink.seek(0)
                sink.truncate()
            elif answer.status != 206 or not str(answer.getheader("Content-Range")).startswith(f"bytes {start}-"):
                raise _problem(answer)
            while data := answer.read(_PIECE):
                if sink.tell() + len(data) > digest.size:
                    raise RemoteProblem("wrong", "it sent more bytes than the blob has")
                sink.write(data)
            if sink.tell() != digest.size:
                raise RemoteProblem("down", f"it sent {sink.tell()} of {digest.size} bytes")

        if start < digest.size:
            self._request("GET", f"cas/{digest.hash}", take, headers={"Range": f"bytes={start}-"} if start else {})

    def write_small(self, blobs: Mapping[Digest, bytes]) -> None:
        def put(item: tuple[Digest, bytes]) -> None:
            self._request("PUT", f"cas/{item[0].hash}", _stored, item[1], item[0].size)

        for _ in self._pool.map(put, blobs.items()):
            pass

    def write(self, digest: Digest, source: Path) -> None:
        with source.open("rb") as file:
            self._request("PUT", f"cas/{digest.hash}", _stored, file, digest.size)

    def close(self) -> None:
        """Make requests in progress fail."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for connection in tuple(self._connections):
            # Only the thread that uses a connection may close it. SSLSocket's own shutdown() would continue without
            # TLS.
            if connection.sock is not None:
                with suppress(OSError):
                    socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

    def _has(self, digest: Digest) -> bool:
        def there(answer: http.client.HTTPResponse) -> bool:
            if answer.status not in (200, 404):
                raise _problem(answer)
            # Servers may omit the length.
            return answer.status == 200 and answer.getheader("Content-Length") in (None, str(digest.size))

        return self._request("HEAD", f"cas/{digest.hash}", there)

    def _get(self, path: str, size: int) -> bytes | None:
        """Return the bytes at a path, or None; at most `size` + 1 bytes, so that a longer body is detected."""

        def take(answer: http.client.HTTPResponse) -> bytes | None:
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise _problem(answer)
            return answer.read(size + 1)

        return self._request("GET", path, take)

    def _request(
        self,
        method: str,
        path: str,
        take: Callable[[http.client.HTTPResponse], T],
        body: bytes | BinaryIO | None = None,
        length: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        sent = {**dict(self._token.headers()), **(headers or {})}
        if length is not None:
            sent["Content-Length"] = str(length)
        prefix = f"/{self._address.path}/" if self._address.path else "/"
        with self._connection() as connection:
            if self._closed:
                raise RemoteProblem("down", "the connection was closed")
            try:
                try:
                    connection.request(method, prefix + path, body, sent)
                except (BrokenPipeError, ConnectionResetError):
                    # A server that refuses a request may answer and close the connection before it has read the body.
                    answer = connection.getresponse()
                    if answer.status < 400:
                        raise
                else:
                    answer = connection.getresponse()
                taken = take(answer)
                if answer.read(_PIECE):
                    connection.close()  # faster than reading the rest
                return taken
            except RemoteProblem as problem:
                raise RemoteProblem(problem.kind, f"{method} {path}: {problem}") from None
            except TooSlow as slow:
                raise RemoteProblem("slow", str(slow)) from None
            except TimeoutError:
                raise RemoteProblem("slow", f"nothing moved for {self._timeout:g} s") from None
            except (OSError, http.client.HTTPException) as error:
                raise RemoteProblem("down", f"{type(error).__name__}: {error}".rstrip(": ")) from None

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        """Yield this thread's connection; it is closed after a failure, so that the next use reconnects."""
        connection = getattr(self._own, "connection", None)
        if connection is None:
            host = self._address.host
            if self._tls is not None:
                connection = SecureConnection(host, timeout=self._timeout, context=self._tls)
            else:
                connection = Connection(host, timeout=self._timeout)
            connection.blocksize = _PIECE
            self._own.connection = connection
            self._connections.append(connection)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise


def _context(security: Security) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=security.ca)
        if security.cert is not None:
            context.load_cert_chain(security.cert, security.key)
        return context
    except OSError as error:
        raise EnvironmentProblem(f"cannot use the certificates of [remote]: {error}") from None


def _stored(answer: http.client.HTTPResponse) -> None:
    if not 200 <= answer.status < 300:
        raise _problem(answer)


def _problem(answer: http.client.HTTPResponse) -> RemoteProblem:
    kind = _KINDS.get(answer.status, "down" if answer.status >= 500 or answer.status == 429 else "refused")
    return RemoteProblem(kind, f"HTTP {answer.status} {answer.reason}")
