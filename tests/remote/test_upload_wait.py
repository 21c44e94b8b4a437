"""A build that waits for uploads at its end: its output, and Ctrl-C."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from modelbuild.actions import Digest
from modelbuild.remote.cache.http_cache import HttpCache
from modelbuild.remote.problems import RemoteProblem
from modelbuild.workspace.remote_address import parse_address
from modelbuild.workspace.remote_settings import RemoteSettings


class Stalls(BaseHTTPRequestHandler):
    """An HTTP cache and a bucket that never have anything, and answer no big PUT before the test has ended."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._end(404)

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        server: Any = self.server
        length = int(self.headers["Content-Length"])
        if length > 100_000:
            server.stalled.set()
            server.over.wait(100)
        hashed = hashlib.md5(self.rfile.read(length)).hexdigest()
        self._end(200, f'"{hashed}"')

    def _end(self, status: int, tag: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if tag:
            self.send_header("ETag", tag)
        self.end_headers()


@pytest.fixture
def stalling() -> Iterator[Any]:
    made: Any = ThreadingHTTPServer(("127.0.0.1", 0), Stalls)
    made.stalled, made.over = threading.Event(), threading.Event()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.over.set()
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize("scheme", ["http", "s3", "grpc"])
def test_a_wait_is_said_and_ctrl_c_ends_it(place: Any, stalling: Any, serve: Any, scheme: str) -> None:
    server = serve(fault=lambda name: "slow" if name == "Write" else "")
    server.slow = 20
    http = f"http://127.0.0.1:{stalling.server_port}"
    address = {"http": http, "s3": "s3://bucket", "grpc": server.address}[scheme]
    one, plain = place("one"), place("plain")
    one.write({"MODELBUILD.toml": f'rules = ["//tools/rules"]\n[remote]\ncache = "{address}"\ntimeout = 300\n'})
    bucket = {"AWS_ENDPOINT": http, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    build = one.start("build", "//a:all", **bucket, AWS_ALLOW_HTTP="true")
    while "Ctrl-C to stop waiting" not in build.err:
        assert not build.over, build.err
        time.sleep(0.05)
    build.send(signal.SIGINT)
    ended = build.wait()
    assert ended.code == 8
    said = [line for line in ended.err.splitlines() if line]
    assert said[2] == "waiting for 1 upload to the remote cache, 640.1 KiB left (Ctrl-C to stop waiting)"
    assert said[3:] == ["Interrupted: 2 actions, 2 ran, 0 cached", "interrupted"]
    plain.build()
    assert one.outputs() == plain.outputs()


def test_closing_an_http_cache_ends_its_requests(stalling: Any) -> None:
    cache = HttpCache(parse_address(f"http://127.0.0.1:{stalling.server_port}"), RemoteSettings(timeout=300))
    data = bytes(200_000)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(cache.write_small, {Digest(hashlib.sha256(data).hexdigest(), len(data)): data})
        assert stalling.stalled.wait(60)
        cache.close()
        problem = sent.exception(60)
    assert isinstance(problem, RemoteProblem)
    assert problem.kind == "down"
