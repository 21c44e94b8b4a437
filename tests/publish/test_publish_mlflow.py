"""mlflow:// against MLflow's own server, in an environment of its own; and errors of servers in one line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from modelbuild.errors import UsageError
from modelbuild.publish.destination import parse_destination
from tests.packaging.installation import run
from tests.publish.conftest import RELEASE, TARGET
from tests.trust.test_secrets import findings
from tests.workspace_builder import Workspace

MLFLOW = "mlflow==3.17.2"
ALONE = ("--no-provenance", "--no-sbom")
LOGIN = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "CANARY-password", "no_proxy": "127.0.0.1"}


class Answers(BaseHTTPRequestHandler):
    """A fake server: the same answer to each request, with the login in it."""

    status = 200
    body = b""

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_any(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_GET = do_POST = do_PUT = do_DELETE = do_any


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, b"You are not authenticated.", "HTTP 401: Unauthorized (with the configured login)"),
        (403, b'{"message": "denied to CANARY-password"}', "HTTP 403: denied to (secret) (with the configured login)"),
        (200, b"<html>A page</html>", "HTTP 200: OK; expected an answer of MLflow"),
        (200, b"{}", "HTTP 200: an answer without 'experiment_id'; expected one of MLflow"),
        (400, b'{"error_code": "INVALID", "message": "no\\nmodel"}', "HTTP 400: no model"),
        (0, b"", "the server cannot be used: [Errno 111] Connection refused"),
    ],
)
def test_errors_are_one_line_without_secrets(project: Workspace, status: int, body: bytes, message: str) -> None:
    handler = type("Handler", (Answers,), {"status": status, "body": body})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    address = f"mlflow://127.0.0.1:{server.server_port}/net"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    if status:
        thread.start()
    else:
        server.server_close()
    ended = project.run("publish", TARGET, "--to", address, *ALONE, "-q", **LOGIN)
    if status:
        server.shutdown()
        server.server_close()
        thread.join()
    assert (ended.code, ended.out, ended.err) == (34, "", f"error: {address}: {message}\n")
    assert findings(project.folder) == []


@pytest.mark.parametrize("address", ["mlflow://host", "mlflow://host/a/b", "mlflow://host/a:1", "mlflow://host/"])
def test_no_addresses(address: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--to {address}: expected mlflow://HOST[:PORT]/MODEL")):
        parse_destination(address)


class Server:
    """MLflow's server with its files in a folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"mlflow://127.0.0.1:{self.port}/net"
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        where = ("--host", "127.0.0.1", "--port", str(self.port), "--workers", "1", "--serve-artifacts")
        stored = (
            "--backend-store-uri",
            f"sqlite:///{self.folder}/db",
            "--artifacts-destination",
            self.folder / "files",
        )
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "mlflow", "server", *where, *stored],
                stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}"},
            )  # fmt: skip
        for _ in range(600):
            with suppress(OSError):
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            assert self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.2)
        raise AssertionError((self.folder / "log").read_text())

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def python(self, code: str) -> Any:
        """Return the JSON that a program with MLflow's client prints; its names `mlflow` and `client` are imported."""
        begin = "import json, mlflow; client = mlflow.MlflowClient(); "
        return json.loads(
            run(self.programs / "python", "-c", begin + code, cwd=self.folder, MLFLOW_TRACKING_URI=self.url)
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("mlflow")
    venv.create(folder / "venv", with_pip=False)
    pip = (sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "install", "--quiet")
    run(*pip, MLFLOW, cwd=folder)
    made = Server(folder / "venv/bin", folder)
    yield made
    made.kill()


@pytest.mark.exhaustive
def test_versions_of_a_model_in_mlflows_registry(project: Workspace, server: Server) -> None:
    def publish(command: str, target: str, *flags: str, code: int = 0) -> str:
        ended = project.run(command, target, "--to", server.address, *flags)
        assert ended.code == code, ended.err
        return ended.out if code == 0 else ended.err.splitlines()[-1]

    address = server.address
    assert publish("publish", TARGET) == f"{address}/1  2 files uploaded, 2 documents attached\n"
    assert publish("publish", TARGET) == f"{address}/1  nothing to upload, this content is there already\n"
    code = "path = mlflow.artifacts.download_artifacts('models:/net/1'); print(json.dumps(path))"
    folder = Path(server.python(code))
    assert sorted(path.name for path in folder.iterdir()) == [
        *("manifest.json", "net.pte", "provenance.intoto.json", "run.sh", "sbom.cdx.json"),
    ]
    assert (folder / "net.pte").read_text() == "program 1\n"
    tags = server.python("print(json.dumps(client.get_model_version('net', '1').tags))")
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    assert tags == {"modelbuild.digest": f"sha256:{digest}", "modelbuild.target": TARGET}

    released = publish("release", RELEASE, *ALONE)
    assert released == f"{address}/2  4 files uploaded, tagged\n"
    assert publish("release", RELEASE, *ALONE) == f"{address}/2  nothing to upload, this content is there already\n"
    project.write({"m/net.pte": "program 2\n", "m/run.sh": ""})
    assert "version 1.2.0 is sha256:" in publish("release", RELEASE, *ALONE, code=34)
    assert publish("release", RELEASE, *ALONE, "--replace") == f"{address}/3  4 files uploaded, tagged\n"
    code = "found = client.search_model_versions(\"name='net'\"); print(json.dumps([dict(v.tags) for v in found]))"
    versions = [each.get("modelbuild.version") for each in server.python(code)]
    assert versions == ["1.2.0", None, None]


@pytest.mark.exhaustive
def test_a_server_that_is_killed_has_no_new_version(project: Workspace, server: Server) -> None:
    address = server.address.replace("/net", "/killed")
    project.write({"m/net.pte": "x" * 300_000_000})
    publishing = project.start("publish", TARGET, "--to", address, *ALONE, "-q")
    while not list((server.folder / "files").rglob("*")) and not publishing.over:
        time.sleep(0.05)
    runs = {path.parent for path in (server.folder / "files").rglob("artifacts")}
    while (
        len({path.parent for path in (server.folder / "files").rglob("artifacts")}) == len(runs) and not publishing.over
    ):
        time.sleep(0.02)
    server.kill()
    ended = publishing.wait()
    (line,) = ended.err.splitlines()
    assert ended.code == 34
    assert line.startswith(f"error: {address}: the server cannot be used: ")
    server.start()
    assert server.python("print(json.dumps(len(client.search_model_versions(\"name='killed'\"))))") == 0
    again = project.run("publish", TARGET, "--to", address, *ALONE, "-q")
    assert (again.code, again.out) == (0, f"{address}/1  2 files uploaded\n")
