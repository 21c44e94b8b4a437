"""Logins: where they are found, to whom they are sent, and that nothing else contains them."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from modelbuild.publish.content import Content, PublishError
from modelbuild.publish.destination import parse_destination, publish
from modelbuild.registry.credentials import BadConfiguration, find_login
from tests.publish.conftest import TARGET
from tests.publish.registry import PASSWORD, USER, Registry
from tests.workspace_builder import Workspace

AUTH = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
HOST = "registry.example:5000"

pytestmark = pytest.mark.usefixtures("no_login")


def found(home: Path, **environ: str) -> tuple[str, str, str] | None:
    login = find_login(HOST, {"HOME": str(home), "PATH": os.environ["PATH"], **environ})
    return None if login is None else (login.user, login.password, login.refresh_token)


def test_logins_of_docker_podman_and_netrc_are_found_in_this_order(tmp_path: Path) -> None:
    assert found(tmp_path) is None
    (tmp_path / ".netrc").write_text("machine registry.example login n password netrc\n")
    assert found(tmp_path) == ("n", "netrc", "")
    auths = {"auths": {HOST: {"auth": base64.b64encode(b"p:podman:1").decode()}}}
    (tmp_path / ".config/containers").mkdir(parents=True)
    (tmp_path / ".config/containers/auth.json").write_text(json.dumps(auths))
    assert found(tmp_path) == ("p", "podman:1", "")
    (tmp_path / ".docker").mkdir()
    auths = {"auths": {f"https://{HOST}": {"username": "d", "password": "docker"}, "other.example": {"auth": AUTH}}}
    (tmp_path / ".docker/config.json").write_text(json.dumps(auths))
    assert found(tmp_path) == ("d", "docker", "")
    (tmp_path / "given.json").write_text(json.dumps({"auths": {HOST: {"identitytoken": "token"}}}))
    assert found(tmp_path, REGISTRY_AUTH_FILE=str(tmp_path / "given.json")) == ("", "", "token")
    variable = json.dumps({"auths": {HOST: {"auth": AUTH}}})
    assert found(tmp_path, DOCKER_AUTH_CONFIG=variable) == (USER, PASSWORD, "")


def test_credential_helpers_are_asked(tmp_path: Path) -> None:
    helper = tmp_path / "docker-credential-mine"
    helper.write_text(
        '#!/bin/sh\nread host; [ "$host" = registry.example:5000 ] && echo \'{"Username": "h", "Secret": "s"}\'\n'
    )
    helper.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    for config in ({"credHelpers": {HOST: "mine"}}, {"credsStore": "mine", "auths": {HOST: {}}}):
        assert found(tmp_path, DOCKER_AUTH_CONFIG=json.dumps(config), PATH=path) == ("h", "s", "")
    config = {"credHelpers": {"other.example": "mine"}}
    assert found(tmp_path, DOCKER_AUTH_CONFIG=json.dumps(config), PATH=path) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "DOCKER_AUTH_CONFIG is not a JSON object"),
        ("[]", "DOCKER_AUTH_CONFIG is not a JSON object"),
        (json.dumps({"auths": {HOST: {"auth": "CANARY"}}}), "a login that is not the base64 of USER:PASSWORD"),
        (json.dumps({"credHelpers": {HOST: "../CANARY"}}), "a credential helper's name is not a word"),
        (json.dumps({"credHelpers": {HOST: "none"}}), "docker-credential-none is not installed"),
    ],
)
def test_a_bad_configuration_is_one_line_without_its_content(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadConfiguration) as raised:
        found(tmp_path, DOCKER_AUTH_CONFIG=text)
    assert message in str(raised.value)
    assert "CANARY" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["{}", '{"auths": 1}', '{"auths": {"registry.example:5000": 3}}', '{"credHelpers": []}']
)
def test_a_configuration_without_the_host_has_no_login(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, DOCKER_AUTH_CONFIG=text) is None


def test_no_file_and_no_output_contains_a_login(
    project: Workspace, start_registry: Callable[..., Registry], tmp_path: Path
) -> None:
    registry = start_registry(login=True)
    (tmp_path / ".docker").mkdir()
    config = tmp_path / ".docker/config.json"
    arguments = ("publish", TARGET, "--to", f"oci://{registry.host}/net:1", "--no-provenance", "--no-sbom")
    project.run(*arguments)
    missing = project.run(*arguments)
    assert missing.code == 34
    assert f"it demands a login, and none is configured for {registry.host}; `docker login`" in missing.err
    wrong = base64.b64encode(b"me:canary-secret-wrong").decode()
    texts = []
    for auth, code in ((wrong, 34), (AUTH, 0)):
        config.write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))
        ended = project.run("--verbose-failures", *arguments)
        assert ended.code == code, ended.err
        texts += [ended.out, ended.err]
    assert "HTTP 401: authentication required (with the login configured for" in texts[1]
    config.unlink()
    files = [path for folder in (project.root, project.cache) for path in folder.rglob("*") if path.is_file()]
    contents = [*(text.encode() for text in texts), *(path.read_bytes() for path in files)]
    for secret in (PASSWORD, wrong, AUTH):
        assert not any(secret.encode() in each for each in contents)


class TokenServer(BaseHTTPRequestHandler):
    """A registry that demands a token of its own service, knows referrers, and repeats headers in its errors."""

    protocol_version = "HTTP/1.1"
    stored: dict[str, bytes]
    seen: list[str]
    referrers: list[dict[str, object]]

    def handle_any(self) -> None:
        address = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = self.headers.get("Authorization", "")
        self.seen.append(f"{self.command} {address.path}")
        if address.path == "/token":
            query = parse_qs(address.query)
            if given != f"Basic {AUTH}":
                self.answer(403, json.dumps({"errors": [{"code": "DENIED", "message": f"not {given}"}]}).encode())
            elif query["scope"] == ["repository:net:pull,push"] and query["service"] == ["mine"]:
                self.answer(200, b'{"token": "canary-token"}')
            return
        if given != "Bearer canary-token":
            realm = f"http://{self.headers['Host']}/token"
            self.answer(401, b"{}", {"WWW-Authenticate": f'Bearer realm="{realm}",service="mine",scope="x"'})
            return
        key = address.path.removeprefix("/v2/net/")
        if self.command == "POST":
            self.answer(202, b"", {"Location": "/v2/net/upload?x=1"})
        elif self.command == "PUT" and key == "upload":
            self.stored[f"blobs/{parse_qs(address.query)['digest'][0]}"] = body
            self.answer(201, b"")
        elif self.command == "PUT":
            self.stored[key] = body
            manifest = json.loads(body)
            if "subject" in manifest:
                kind = {"artifactType": manifest["artifactType"], "annotations": manifest["annotations"]}
                self.referrers.append({"digest": key.rpartition("/")[2], **kind})
            self.answer(201, b"", {"OCI-Subject": "sha256:x"} if "subject" in manifest else {})
        elif key.startswith("referrers/"):
            self.answer(200, json.dumps({"manifests": self.referrers}).encode())
        else:
            self.answer(200 if key in self.stored else 404, self.stored.get(key, b"{}"))

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def token_server() -> Iterator[ThreadingHTTPServer]:
    handler = type("Handler", (TokenServer,), {"stored": {}, "seen": [], "referrers": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_token_is_fetched_and_referrers_are_those_of_the_registry(
    token_server: ThreadingHTTPServer, content: Callable[..., Content], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = f"127.0.0.1:{token_server.server_port}"
    monkeypatch.setenv("DOCKER_AUTH_CONFIG", json.dumps({"auths": {host: {"auth": AUTH}}}))
    given = content({"a": b"a"}, provenance=b"{}")
    said: list[str] = []
    for _ in range(2):
        publish(given, parse_destination(f"oci://{host}/net:1"), False, said.append)
    assert said == ["uploaded a", "attached provenance.json", "tag 1"]
    handler = token_server.RequestHandlerClass
    assert handler.seen.count("GET /token") == 2  # type: ignore[attr-defined]
    assert [name for name in handler.stored if name.startswith("manifests/sha256-")] == []  # type: ignore[attr-defined]


def test_a_server_that_repeats_a_login_does_not_make_it_public(
    token_server: ThreadingHTTPServer, content: Callable[..., Content], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = f"127.0.0.1:{token_server.server_port}"
    wrong = base64.b64encode(b"me:canary").decode()
    monkeypatch.setenv("DOCKER_AUTH_CONFIG", json.dumps({"auths": {host: {"auth": wrong}}}))
    with pytest.raises(PublishError, match="HTTP 403: not Basic \\(secret\\)") as raised:
        publish(content({"a": b"a"}), parse_destination(f"oci://{host}/net:1"), False, print)
    assert wrong not in str(raised.value)
