"""Bazel's HTTP cache: nginx as a real server, and a test server that misbehaves and requires a token over TLS."""

from __future__ import annotations

import hashlib
import random
import socket
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from modelbuild.actions import Digest
from modelbuild.remote.cache.http_cache import HttpCache
from modelbuild.remote.problems import RemoteProblem
from modelbuild.workspace.remote_address import parse_address
from modelbuild.workspace.remote_settings import RemoteSettings


def digest(data: bytes) -> Digest:
    return Digest(hashlib.sha256(data).hexdigest(), len(data))


@pytest.mark.exhaustive
def test_two_workspaces_share_what_nginx_keeps(place: Any, nginx: str, tmp_path: Path) -> None:
    one, two = place("one"), place("two")
    assert set(one.build(f"--remote-cache={nginx}").statuses.values()) == {"ran"}
    assert set(two.build(f"--remote-cache={nginx}").statuses.values()) == {"cached"}
    assert two.outputs() == one.outputs()
    kept = {path.name: path.read_bytes() for path in (tmp_path / "nginx/root/team/cas").iterdir()}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in kept.items())


class Handler(BaseHTTPRequestHandler):
    """`server.answer(method, path)`: a status to fail with, 'cut', 'no ranges', or ''."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _blob(self) -> bytes | None:
        server: Any = self.server
        server.seen.append((self.command, self.path, self.headers.get("Authorization"), self.headers.get("Range")))
        what = server.answer(self.command, self.path)
        if isinstance(what, int):
            self._end(what, b"")
            return None
        data = server.kept.get(self.path)
        if data is None:
            self._end(404, b"not here")
            return None
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if what != "no ranges" else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if what == "cut":
            self.wfile.write(data[start : start + len(data) // 3])
            self.close_connection = True
            return None
        return data[start:]

    def do_GET(self) -> None:
        data = self._blob()
        if data is not None:
            self.wfile.write(data)

    def do_HEAD(self) -> None:
        self._blob()

    def do_PUT(self) -> None:
        server: Any = self.server
        data = self.rfile.read(int(self.headers["Content-Length"]))
        what = server.answer("PUT", self.path)
        if not isinstance(what, int):
            server.kept[self.path] = data
        self._end(what if isinstance(what, int) else 201, b"")

    def _end(self, status: int, text: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.kept, made.seen, made.answer = {}, [], lambda method, path: ""
    made.address = f"http://127.0.0.1:{made.server_port}"
    Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def cache(server: Any) -> Iterator[HttpCache]:
    made = HttpCache(parse_address(server.address), RemoteSettings(timeout=1))
    yield made
    made.close()


def test_a_download_goes_on_where_it_broke_off(server: Any, cache: HttpCache, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(1 << 20)
    server.kept[f"/cas/{digest(data).hash}"] = data
    for after in ("", "no ranges"):
        server.answer = lambda method, path: "cut"
        with (tmp_path / "x").open("wb+", buffering=0) as sink:
            with pytest.raises(RemoteProblem) as caught:
                cache.read(digest(data), sink)
            assert caught.value.kind == "down"
            assert 0 < sink.tell() < len(data)
            server.answer = lambda method, path, after=after: after
            cache.read(digest(data), sink)
        assert (tmp_path / "x").read_bytes() == data
        assert server.seen[-1][3] == f"bytes={len(data) // 3}-"


@pytest.mark.parametrize(
    ("status", "kind"), [(500, "down"), (503, "down"), (429, "down"), (403, "refused"), (507, "full"), (413, "big")]
)
def test_meanings_of_statuses(server: Any, cache: HttpCache, status: int, kind: str) -> None:
    server.answer = lambda method, path: status
    operations: list[Callable[[], Any]] = [
        lambda: cache.write_small({digest(b"x"): b"x"}),
        lambda: cache.read_small([digest(b"x")]),
        lambda: cache.missing([digest(b"x")]),
        lambda: cache.get_action(digest(b"x")),
    ]
    for operation in operations:
        with pytest.raises(RemoteProblem) as caught:
            operation()
        assert caught.value.kind == kind
        assert str(caught.value).endswith(f"/{digest(b'x').hash}: HTTP {status} {HTTPStatus(status).phrase}")


@pytest.mark.parametrize(("status", "kind"), [("403 Forbidden", "refused"), ("413 Too Large", "big")])
def test_a_refusal_before_the_body_was_sent_is_no_broken_line(tmp_path: Path, status: str, kind: str) -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                asked.append(connection.recv(4096))
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
                connection.close()  # with most of the body unread, which resets the connection

        Thread(target=refuse, daemon=True).start()
        cache = HttpCache(parse_address(f"http://127.0.0.1:{listening.getsockname()[1]}"), RemoteSettings(timeout=60))
        (tmp_path / "big").write_bytes(bytes(32 << 20))
        for _ in range(3):
            with pytest.raises(RemoteProblem) as caught:
                cache.write(Digest("0" * 64, 32 << 20), tmp_path / "big")
            assert (caught.value.kind, str(caught.value)) == (kind, f"PUT cas/{'0' * 64}: HTTP {status}")
        cache.close()
        listening.shutdown(socket.SHUT_RDWR)
    assert len(asked) == 3


def test_invalid_results_are_refused(server: Any, cache: HttpCache) -> None:
    assert cache.get_action(digest(b"a")) is None
    server.kept[f"/ac/{digest(b'a').hash}"] = b"<html>please log in</html>"
    with pytest.raises(RemoteProblem) as caught:
        cache.get_action(digest(b"a"))
    assert caught.value.kind == "wrong"


def test_a_blob_of_another_size_is_not_taken(server: Any, cache: HttpCache, tmp_path: Path) -> None:
    wanted = Digest("0" * 64, 10)
    server.kept[f"/cas/{wanted.hash}"] = bytes(5000)
    assert cache.missing([wanted]) == {wanted}
    assert len(cache.read_small([wanted])[wanted]) == 11
    with (tmp_path / "x").open("wb", buffering=0) as sink, pytest.raises(RemoteProblem) as caught:
        cache.read(wanted, sink)
    assert caught.value.kind == "wrong"
