"""A least rate for data from servers: a server that sends a few bytes a second must not hold up a build."""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.request
from typing import Any

# Bytes a second. A slower server is slower than building again.
LEAST_RATE = 1024


class TooSlow(TimeoutError):
    """A server sent too few useful bytes for too long."""


class Pace:
    """The time that a transfer may still take: `timeout` seconds, and as much more as its bytes earn at LEAST_RATE.
    Earlier bytes never earn more than `timeout` seconds in advance."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        self._size = 0

    def moved(self, size: int) -> None:
        """Count useful bytes: not those of headers and of empty messages."""
        self._size += size
        self._end = min(time.monotonic() + self._timeout, self._end + size / LEAST_RATE)

    def left(self) -> float:
        """Return the seconds until the transfer is too slow; 0 or less if it is."""
        return self._end - time.monotonic()

    def check(self) -> float:
        """Return left(). Raises TooSlow if it is 0 or less."""
        left = self.left()
        if left <= 0:
            raise TooSlow(self.problem)
        return left

    @property
    def problem(self) -> str:
        """A line about a transfer that is too slow."""
        if self._size:
            return f"it sent fewer than {LEAST_RATE} bytes a second for {self._timeout:g} s"
        return f"nothing moved for {self._timeout:g} s"


class _Source(io.RawIOBase):
    """The bytes that a socket receives, at a least rate."""

    def __init__(self, connection: socket.socket, pace: Pace) -> None:
        self._connection = connection
        # Keeps the socket open for the response after its connection was closed.
        self._stream = connection.makefile("rb", buffering=0)
        self._pace = pace
        self.useful = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        usual = self._connection.gettimeout()
        self._connection.settimeout(self._pace.check())
        try:
            size = self._stream.readinto(buffer) or 0
        except TimeoutError:
            raise TooSlow(self._pace.problem) from None
        finally:
            self._connection.settimeout(usual)
        if self.useful:
            self._pace.moved(size)
        return size

    def close(self) -> None:
        self._stream.close()
        super().close()


class Response(http.client.HTTPResponse):
    """A response whose headers arrive within the connection's timeout, and whose body has a Pace. Reads raise
    TooSlow."""

    def __init__(self, sock: socket.socket, *options: Any, **named: Any) -> None:
        super().__init__(sock, *options, **named)
        timeout = sock.gettimeout()
        if timeout is not None:
            self.fp.close()
            self._pace = Pace(timeout)
            self._source = _Source(sock, self._pace)
            self.fp = io.BufferedReader(self._source)

    def begin(self) -> None:
        super().begin()
        if hasattr(self, "_source") and not self.chunked:
            self._source.useful = True

    def read(self, amt: int | None = None) -> bytes:
        # A chunk's extensions are not useful, so chunks are counted after they are taken apart.
        if not self.chunked or not hasattr(self, "_source"):
            return super().read(amt)
        parts = []
        while (amt is None or amt > 0) and (data := super().read1(-1 if amt is None else amt)):
            self._pace.moved(len(data))
            parts.append(data)
            amt = None if amt is None else amt - len(data)
        return b"".join(parts)


class Connection(http.client.HTTPConnection):
    """A connection with such responses."""

    response_class = Response


class SecureConnection(http.client.HTTPSConnection):
    """A connection over TLS with such responses."""

    response_class = Response


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(Connection, req)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(SecureConnection, req)


def build_opener() -> urllib.request.OpenerDirector:
    """Return an opener with such responses. It has the proxies of the environment of now, not of the first use."""
    return urllib.request.build_opener(_Handler, _SecureHandler)
