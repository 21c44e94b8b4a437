"""The http_file step with a local server that makes servers' typical errors."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from modelbuild.step import Step, StepError
from modelbuild_rules.files.steps import http_file

DATA = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()
OTHER = b"not what was asked for"


class Handler(BaseHTTPRequestHandler):
    """Each path is one behaviour; `/flaky/N` fails N times before it works."""

    protocol_version = "HTTP/1.1"
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.path)
        kind, _, argument = self.path[1:].partition("/")
        getattr(self, kind)(argument)

    def ok(self, _: str) -> None:
        self._answer(200, DATA)

    def wrong(self, _: str) -> None:
        self._answer(200, OTHER)

    def gone(self, status: str) -> None:
        self._answer(int(status), b"no")

    def flaky(self, times: str) -> None:
        self._answer(200 if self.seen.count(self.path) > int(times) else 503, DATA)

    def redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", f"/{target}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def truncated(self, _: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(DATA)))
        self.end_headers()
        self.wfile.write(DATA[:1000])
        self.close_connection = True

    def chunked(self, _: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"3e8\r\n" + DATA[:500])
        self.close_connection = True

    def sized(self, length: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(DATA)
        self.close_connection = True

    def trickle(self, _: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(DATA)))
        self.end_headers()
        with suppress(OSError):
            for _byte in range(len(DATA)):
                self.wfile.write(b"x")
                time.sleep(0.05)
        self.close_connection = True

    def silent(self, _: str) -> None:
        self.server.shutdown_requested.wait(30)  # type: ignore[attr-defined]
        self.close_connection = True

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server:
    def __init__(self, port: int, seen: list[str]) -> None:
        self.port = port
        self.seen = seen

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(http_file, "ROUNDS", (0.0, 0.0, 0.0))
    seen: list[str] = []
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), type("SeeingHandler", (Handler,), {"seen": seen}))
    httpd.daemon_threads = False
    httpd.shutdown_requested = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield Server(httpd.server_port, seen)
    httpd.shutdown_requested.set()  # type: ignore[attr-defined]
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def download(tmp_path: Path, *urls: str, sha256: str = SHA256, executable: bool = False) -> Path:
    out = tmp_path / "out.bin"
    http_file.run(Step({"urls": list(urls), "sha256": sha256, "executable": executable}, {}, {"file": out}, tmp_path))
    return out


@pytest.mark.parametrize(
    "path", ["ok", "redirect/ok", "redirect/redirect/ok", "ok/with%20space?query=1", "sized/many", "sized/"]
)
def test_writes_the_bytes(tmp_path: Path, server: Server, path: str) -> None:
    out = download(tmp_path, server.url(path))
    assert out.read_bytes() == DATA
    assert not out.stat().st_mode & 0o111


def test_marks_executable(tmp_path: Path, server: Server) -> None:
    assert download(tmp_path, server.url("ok"), executable=True).stat().st_mode & 0o777 == 0o755


def test_reads_file_addresses(tmp_path: Path) -> None:
    (tmp_path / "a file").write_bytes(DATA)
    assert download(tmp_path, (tmp_path / "a file").as_uri()).read_bytes() == DATA


def test_takes_the_first_address_that_works(tmp_path: Path, server: Server) -> None:
    download(tmp_path, server.url("gone/404"), server.url("wrong"), server.url("ok/b"), server.url("ok/c"))
    assert server.seen == ["/gone/404", "/wrong", "/ok/b"]


@pytest.mark.parametrize("times", [1, 2])
def test_asks_again_what_may_pass(tmp_path: Path, server: Server, times: int) -> None:
    download(tmp_path, server.url(f"flaky/{times}"))
    assert len(server.seen) == times + 1


def test_asks_the_next_address_before_asking_again(tmp_path: Path, server: Server) -> None:
    download(tmp_path, server.url("flaky/9"), server.url("flaky/1"))
    assert server.seen == ["/flaky/9", "/flaky/1", "/flaky/9", "/flaky/1"]


def test_waits_longer_before_each_round(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(http_file, "ROUNDS", (0.0, 1.0, 4.0))
    monkeypatch.setattr(http_file.time, "sleep", waits.append)
    download(tmp_path, server.url("flaky/2"))
    assert waits == [0.0, 1.0, 4.0]


@pytest.mark.parametrize(
    ("path", "asked", "reason"),
    [
        ("gone/404", 1, "HTTP 404 Not Found"),
        ("gone/403", 1, "HTTP 403 Forbidden"),
        ("gone/429", 3, "HTTP 429 Too Many Requests"),
        ("gone/500", 3, "HTTP 500 Internal Server Error"),
        ("truncated", 3, "the connection ended after 1000 of 256000 bytes"),
        ("chunked", 3, "the connection ended in the middle of the file"),
    ],
)
def test_says_what_the_server_did(tmp_path: Path, server: Server, path: str, asked: int, reason: str) -> None:
    with pytest.raises(StepError) as error:
        download(tmp_path, server.url(path))
    assert str(error.value) == f"cannot download: {server.url(path)}: {reason}"
    assert server.seen == [f"/{path}"] * asked


def test_wrong_bytes_name_both_digests_and_are_not_asked_for_again(tmp_path: Path, server: Server) -> None:
    with pytest.raises(StepError) as error:
        download(tmp_path, server.url("wrong"))
    got = hashlib.sha256(OTHER).hexdigest()
    assert str(error.value) == (
        f"cannot download: {server.url('wrong')}: wrong SHA-256: expected {SHA256}, got {got} ({len(OTHER)} bytes)"
    )
    assert server.seen == ["/wrong"]


def test_every_address_has_its_reason(tmp_path: Path, server: Server) -> None:
    with pytest.raises(StepError) as error:
        download(tmp_path, server.url("gone/404"), server.url("gone/500"))
    assert str(error.value) == (
        f"cannot download: {server.url('gone/404')}: HTTP 404 Not Found; "
        f"{server.url('gone/500')}: HTTP 500 Internal Server Error"
    )


def test_a_server_that_does_not_answer(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_file, "TIMEOUT", 0.1)
    with pytest.raises(StepError, match=r"/silent: nothing moved for 0\.1 s$"):
        download(tmp_path, server.url("silent"))


def test_the_next_address_has_what_a_slow_server_does_not_send(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_file, "TIMEOUT", 0.5)
    download(tmp_path, server.url("trickle"), server.url("ok"))
    with pytest.raises(StepError, match=r"/trickle: it sent fewer than 1024 bytes a second for 0\.5 s$"):
        download(tmp_path, server.url("trickle"))


def test_nobody_listens(tmp_path: Path, server: Server) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(StepError, match="Connection refused"):
        download(tmp_path, f"http://127.0.0.1:{port}/ok")


def test_a_file_that_is_not_there(tmp_path: Path, server: Server) -> None:
    with pytest.raises(StepError, match="No such file or directory"):
        download(tmp_path, (tmp_path / "absent").as_uri())


def test_goes_through_the_proxy_of_the_environment(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url(""))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(StepError):
        download(tmp_path, "http://files.example/ok")
    assert set(server.seen) == {"http://files.example/ok"}


def test_an_address_that_is_none(tmp_path: Path, server: Server) -> None:
    with pytest.raises(StepError, match=r"^cannot download: http://\[::1/x: "):
        download(tmp_path, "http://[::1/x")
