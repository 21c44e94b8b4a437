"""Servers that send a few bytes a second, or bytes of no use, over HTTP."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from modelbuild import transfer
from modelbuild.transfer import LEAST_RATE, Pace, TooSlow

# A response, piece by piece, with 0.1 s between its pieces.
HEADERS = b"HTTP/1.1 200 OK\r\n"
RESPONSES: dict[str, Callable[[], Iterator[bytes]]] = {
    "body": lambda: iter([HEADERS + b"Content-Length: 1000\r\n\r\n", *[b"x"] * 1000]),
    "headers": lambda: iter([HEADERS, *[b"a: b\r\n"] * 1000]),
    "continues": lambda: iter([b"HTTP/1.1 100 Continue\r\n\r\n"] * 1000),
    "chunks": lambda: iter([HEADERS + b"Transfer-Encoding: chunked\r\n\r\n", *[b"1\r\nx\r\n"] * 1000]),
    "extensions": lambda: iter(
        [HEADERS + b"Transfer-Encoding: chunked\r\n\r\n", *[b"1;" + b"e" * 9000 + b"\r\nx\r\n"] * 1000]
    ),
    "endless": lambda: iter([HEADERS + b"\r\n", *[b"x"] * 1000]),
}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            for piece in RESPONSES[self.path[1:]]():
                self.wfile.write(piece)
                time.sleep(0.1)


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def read(url: str, size: int | None) -> None:
    with transfer.build_opener().open(urllib.request.Request(url), timeout=1) as response:
        while response.read(size):
            pass


@pytest.mark.parametrize("kind", RESPONSES)
@pytest.mark.parametrize("whole", [False, True])
def test_a_trickle_is_given_up(address: str, kind: str, whole: bool) -> None:
    began = time.monotonic()
    with pytest.raises(TooSlow):
        read(f"{address}/{kind}", None if whole else 100)
    assert 0.9 < time.monotonic() - began < 3


def test_bytes_in_advance_earn_no_more_than_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(transfer.time, "monotonic", lambda: now)
    pace = Pace(10)
    pace.moved(1 << 30)
    assert pace.left() == 10
    now = 5
    pace.moved(LEAST_RATE)
    assert pace.left() == 6
    now = 11
    with pytest.raises(TooSlow, match=r"^it sent fewer than 1024 bytes a second for 10 s$"):
        pace.check()


def test_a_steady_transfer_takes_as_long_as_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(transfer.time, "monotonic", lambda: now)
    pace = Pace(10)
    for _ in range(1000):
        now += 5
        pace.moved(5 * LEAST_RATE)
        pace.check()
