"""TLS and mutual TLS: trusted and untrusted certificates, and tokens that are sent only over TLS."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import grpc
import pytest

from modelbuild.actions import Digest
from modelbuild.remote.open import open_cache
from modelbuild.remote.problems import RemoteProblem
from modelbuild.workspace.remote_address import parse_address
from modelbuild.workspace.remote_settings import RemoteSettings, Security

SOME = Digest("0" * 64, 1)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, and server.pem and client.pem with their keys, signed by it; stranger.pem, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("not run: needs openssl")
    folder = tmp_path_factory.mktemp("pki")

    def run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    run(*new, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("server", "client"):
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1")
        plain = ("-addext", "basicConstraints=critical,CA:FALSE")
        run(*new, *signed, *plain, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    run(*new, "-subj", "/CN=stranger", "-keyout", "stranger.key", "-out", "stranger.pem")
    return folder


@pytest.fixture(params=["grpcs", "https"])
def server(request: pytest.FixtureRequest, pki: Path, serve: Callable[..., Any]) -> Iterator[Callable[[bool], str]]:
    """Start a server, optionally one that requires a certificate; yield its address."""
    started: list[ThreadingHTTPServer] = []
    ca, cert, key = (pki / name for name in ("ca.pem", "server.pem", "server.key"))

    def start(mutual: bool) -> str:
        if request.param == "grpcs":
            pair = [(key.read_bytes(), cert.read_bytes())]
            made = serve(credentials=grpc.ssl_server_credentials(pair, ca.read_bytes() if mutual else None, mutual))
            return str(made.address)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
        context.load_cert_chain(cert, key)
        context.verify_mode = ssl.CERT_REQUIRED if mutual else ssl.CERT_NONE
        http = ThreadingHTTPServer(("127.0.0.1", 0), Empty)
        http.socket = context.wrap_socket(http.socket, server_side=True)
        http.handle_error = lambda *_: None  # type: ignore[method-assign]
        Thread(target=http.serve_forever, daemon=True).start()
        started.append(http)
        return f"https://127.0.0.1:{http.server_port}"

    yield start
    for http in started:
        http.shutdown()
        http.server_close()


class Empty(BaseHTTPRequestHandler):
    """An empty cache."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.send_response(404 if self.headers.get("Authorization") == "Bearer s3cret" else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()


def missing(address: str, **security: Any) -> set[Digest]:
    settings = RemoteSettings(timeout=5, security=Security(token_command=("echo", "s3cret"), **security))
    cache = open_cache(parse_address(address), settings)
    try:
        return cache.missing([SOME])
    finally:
        cache.close()


def test_a_server_that_our_authority_vouches_for(server: Callable[[bool], str], pki: Path) -> None:
    assert missing(server(False), ca=pki / "ca.pem") == {SOME}


def test_a_server_that_nobody_vouches_for(server: Callable[[bool], str], pki: Path) -> None:
    address = server(False)
    for ca in (None, pki / "stranger.pem"):
        with pytest.raises(RemoteProblem) as caught:
            missing(address, ca=ca)
        assert caught.value.kind == "down"
        assert "s3cret" not in str(caught.value)


def test_tokens_in_answers_of_a_server_are_not_shown(
    server: Callable[[bool], str], pki: Path, fake_server: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even its first letters appear, where a long message is truncated."""

    def http(self: BaseHTTPRequestHandler) -> None:
        self.send_response(403, f"{'x' * 205} {self.headers['Authorization']} is not known")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def grpc_method(self: Any, request: Any, context: grpc.ServicerContext, fault: str) -> None:
        sent = dict(context.invocation_metadata())["authorization"]
        context.abort(grpc.StatusCode.PERMISSION_DENIED, f"{'x' * 249} {sent} is not known")

    monkeypatch.setattr(Empty, "do_HEAD", http)
    monkeypatch.setattr(fake_server.FakeServer, "FindMissingBlobs", grpc_method)
    with pytest.raises(RemoteProblem) as caught:
        missing(server(False), ca=pki / "ca.pem")
    assert caught.value.kind == "refused"
    assert "x Bearer (" in str(caught.value)
    assert "s3" not in str(caught.value)


def test_a_server_that_wants_to_know_us(server: Callable[[bool], str], pki: Path) -> None:
    address = server(True)
    assert missing(address, ca=pki / "ca.pem", cert=pki / "client.pem", key=pki / "client.key") == {SOME}
    with pytest.raises(RemoteProblem):
        missing(address, ca=pki / "ca.pem")
    with pytest.raises(RemoteProblem):
        missing(address, ca=pki / "ca.pem", cert=pki / "stranger.pem", key=pki / "stranger.key")
