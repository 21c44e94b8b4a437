"""Builds with caches that send a few bytes a second, or messages of no use: one notice, and the build goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import zstandard

from modelbuild.actions import Digest
from modelbuild.remote.cache.grpc_cache import GrpcCache
from modelbuild.remote.execution import service
from modelbuild.remote.execution.service import Execution
from modelbuild.remote.messages import message
from modelbuild.remote.problems import RemoteProblem
from modelbuild.workspace.remote_address import parse_address
from modelbuild.workspace.remote_settings import RemoteSettings

# Seconds between bytes, or between messages.
PAUSE = 0.05
# A build takes one or two; the cache has one for each of up to three calls in each direction.
MOST = 30


class Trickle(BaseHTTPRequestHandler):
    """Takes what is put, and sends each answer byte by byte."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_GET(self) -> None:
        with suppress(OSError):
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000):
                self.wfile.write(bytes([byte]))
                time.sleep(PAUSE)

    do_HEAD = do_GET


class TricklingBodies(Trickle):
    """Sends headers at once, and only bodies byte by byte."""

    def do_GET(self) -> None:
        with suppress(OSError):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\nETag: x\r\n")
            self.wfile.write(b"Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n")
            for byte in bytes(500) * (self.command != "HEAD"):
                self.wfile.write(bytes([byte]))
                time.sleep(PAUSE)

    do_HEAD = do_GET


@contextmanager
def trickling(handler: type[Trickle]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def check_build(place: Any, address: str, **environment: str) -> None:
    """Check that a build with the cache ends soon, with one notice."""
    one = place("slow")
    one.write({"MODELBUILD.toml": f'rules = ["//tools/rules"]\n[remote]\ncache = "{address}"\ntimeout = 1\n'})
    began = time.monotonic()
    ended = one.build(**environment)
    assert time.monotonic() - began < MOST
    assert set(ended.statuses.values()) == {"ran"}
    notices = [line for line in ended.err.splitlines() if "remote cache" in line]
    assert len(notices) == 1, notices


@pytest.mark.parametrize("handler", [Trickle, TricklingBodies])
def test_an_http_cache(place: Any, handler: type[Trickle]) -> None:
    with trickling(handler) as port:
        check_build(place, f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("handler", [Trickle, TricklingBodies])
def test_an_object_store(place: Any, handler: type[Trickle]) -> None:
    login = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "x", "AWS_ALLOW_HTTP": "true"}
    with trickling(handler) as port:
        check_build(place, "s3://bucket/cache", AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", **login)


def useless(kind: str) -> Iterator[bytes]:
    """Yield the data of the messages of an endless read."""
    empty = zstandard.compress(b"")
    while True:
        yield {"empty": b"", "bytes": b"x", "frames": empty * 1000, "endless frames": empty}[kind]


@pytest.mark.parametrize("kind", ["empty", "bytes", "frames", "endless frames"])
def test_a_read_over_grpc(fake_server: Any, kind: str, tmp_path: Any) -> None:
    class Server(fake_server.FakeServer):  # type: ignore[misc]
        def Read(self, request: Any, context: Any, fault: str) -> Iterator[Any]:
            for data in useless(kind):
                if not context.is_active():
                    return
                yield message("google.bytestream.ReadResponse")(data=data)
                time.sleep(PAUSE if kind != "frames" else 0.001)

    server = Server(zstd="frames" in kind)
    cache = GrpcCache(parse_address(server.address), RemoteSettings(timeout=1))
    began = time.monotonic()
    try:
        with (tmp_path / "blob").open("wb") as sink, pytest.raises(RemoteProblem) as caught:
            cache.read(Digest("a" * 64, 1 << 20), sink)
        assert caught.value.kind == ("wrong" if kind == "frames" else "slow")
    finally:
        cache.close()
        server.close()
    assert time.monotonic() - began < MOST


def test_a_build_with_empty_messages(place: Any, serve: Any, fake_server: Any) -> None:
    """A second workspace finds the results of the first, and never gets their large blob."""
    server = serve()
    first = place("first")
    first.build(f"--remote-cache={server.address}")
    calls = []

    def read(request: Any, context: Any, fault: str) -> Iterator[Any]:
        calls.append(request.resource_name)
        while context.is_active():
            yield message("google.bytestream.ReadResponse")()
            time.sleep(PAUSE)

    slow = type("Slow", (fake_server.FakeServer,), {"Read": lambda self, *call: read(*call)})()
    slow.blobs, slow.results = server.blobs, server.results
    try:
        two = place("two")
        settings = f'[remote]\ncache = "{slow.address}"\ntimeout = 1\n'
        two.write({"MODELBUILD.toml": f'rules = ["//tools/rules"]\n{settings}'})
        began = time.monotonic()
        ended = two.build()
        assert time.monotonic() - began < MOST
    finally:
        slow.close()
    assert calls
    assert two.outputs() == first.outputs()
    assert len([line for line in ended.err.splitlines() if "remote cache" in line]) == 1


@pytest.mark.parametrize("kind", ["no name", "then silent"])
def test_an_execution(fake_server: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_STREAM", 2)

    class Server(fake_server.FakeServer):  # type: ignore[misc]
        def Execute(self, request: Any, context: Any, fault: str) -> Iterator[Any]:
            while context.is_active():
                yield message("google.longrunning.Operation")(name="" if kind == "no name" else "operation-7")
                time.sleep(PAUSE)

        def WaitExecution(self, request: Any, context: Any, fault: str) -> Iterator[Any]:
            while context.is_active():
                time.sleep(PAUSE)
            yield from ()

    server = Server(fault=lambda name: "slow" if name == "GetCapabilities" else "")
    server.slow = 5
    execution = Execution(parse_address(server.address), RemoteSettings(timeout=0.5))
    began = time.monotonic()
    try:
        with pytest.raises(RemoteProblem) as caught:
            execution.execute(Digest("a" * 64, 7), False, lambda stage: None)
    finally:
        execution.close()
        server.close()
    assert caught.value.kind == "slow"
    assert time.monotonic() - began < MOST
