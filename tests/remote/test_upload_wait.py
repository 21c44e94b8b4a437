"""A build that waits for uploads at its end: its output, and Ctrl-C."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from modelbuild.actions import ActionResult, Digest, FileEntry
from modelbuild.remote.cache import uploads
from modelbuild.remote.cache.client import Client
from modelbuild.remote.cache.grpc_cache import GrpcCache
from modelbuild.remote.cache.http_cache import HttpCache
from modelbuild.remote.cache.uploads import Uploads
from modelbuild.remote.problems import RemoteProblem
from modelbuild.store.local import LocalStore
from modelbuild.workspace.remote_address import parse_address
from modelbuild.workspace.remote_settings import RemoteSettings


def test_it_tells_what_is_left_until_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_REPORT", 0.01)
    ends = {name: threading.Event() for name in "abc"}
    told: list[tuple[int, int]] = []

    def publish(key: str, result: ActionResult, left: Callable[[int], None]) -> None:
        ((_, value),) = result.outputs
        assert isinstance(value, FileEntry)
        left(value.digest.size // 2)
        ends[key].wait(60)

    def tell(results: int, size: int) -> None:
        told.append((results, size))
        # Two are half there, and the third has not begun; it begins when the first has ended.
        ended = {(3, 560): "a", (2, 505): "b", (1, 5): "c"}.get((results, size))
        if ended is not None:
            ends[ended].set()

    made = Uploads(publish, pytest.fail)
    for key, size in {"a": 100, "b": 1000, "c": 10}.items():
        made.add(key, ActionResult((("out", FileEntry(Digest(key * 64, size))),)))
    made.wait(tell)
    made.drop()
    assert [each for each in dict.fromkeys(told) if each in ((3, 560), (2, 505), (1, 5))] == list(dict.fromkeys(told))[
        -3:
    ]
    assert told[-1] == (1, 5)


def test_nothing_is_told_of_what_is_there_at_once() -> None:
    made = Uploads(lambda key, result, left: None, pytest.fail)
    made.add("a", ActionResult(()))
    made.wait(lambda results, size: pytest.fail("it was told"))
    made.drop()


def test_a_client_tells_how_many_bytes_are_left(serve: Any, local: LocalStore) -> None:
    left: list[int] = []
    sizes = (3, 100_000, 400_000, 500_000)
    digests = [local.put_bytes(bytes([size % 251]) * size) for size in sizes]
    client = Client(GrpcCache(parse_address(serve().address), RemoteSettings()), local, pytest.fail)
    client.upload(digests[:1], {})
    client.publish("f" * 64, ActionResult(tuple((str(n), FileEntry(d)) for n, d in enumerate(digests))), left.append)
    client.close()
    described = left[0] - sum(sizes[1:])
    assert 0 < described < 1000  # the Action and its Command
    assert sorted(left, reverse=True) == left
    assert left[1:] in ([900_000, 400_000, 0], [900_000, 500_000, 0])


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
