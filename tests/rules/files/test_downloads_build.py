"""http_file and pypi_file through whole builds: fetched once, checked, and never kept when wrong."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.command_runner import Ended
from tests.workspace_builder import Workspace

DATA = b"photo" * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves DATA under every path except those that begin with /bad."""

    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"something else" if self.path.startswith("/bad") else DATA)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Project(Workspace):
    """A workspace with one target `//:file`, a cache, and a server. `seen` are the requested paths."""

    def __init__(self, folder: Path, port: int, seen: list[str]) -> None:
        super().__init__(folder, {"MODELBUILD.toml": ""})
        self.address = f"http://127.0.0.1:{port}"
        self.seen = seen

    def http_file(self, *urls: str, sha256: str = SHA256, extra: str = "") -> None:
        addresses = json.dumps([self.address + url for url in urls])
        text = f'[[http_file]]\nname = "file"\nfilename = "photo.png"\nurls = {addresses}\nsha256 = "{sha256}"\n{extra}'
        self.write({"BUILD.toml": text})

    def fetched(self, **environment: str) -> Ended:
        return self.run("build", "//:file", no_proxy="127.0.0.1", **environment)

    def output(self, name: str = "photo.png") -> Path:
        (found,) = (self.root / "modelbuild-out").rglob(name)
        return found


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    seen: list[str] = []
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), type("SeeingHandler", (Handler,), {"seen": seen}))
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield Project(tmp_path, httpd.server_port, seen)
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def test_a_file_is_fetched_once_from_whichever_address(project: Project) -> None:
    project.http_file("/a")
    assert project.fetched().code == 0
    assert project.output().read_bytes() == DATA
    assert project.fetched().code == 0
    project.http_file("/mirror", "/a")
    assert project.fetched().code == 0
    assert project.seen == ["/a"]


def test_an_executable_file_is_one(project: Project) -> None:
    project.http_file("/a", extra="executable = true\n")
    assert project.fetched().code == 0
    assert os.access(project.output(), os.X_OK)


def test_wrong_bytes_fail_the_build_and_are_not_kept(project: Project) -> None:
    project.http_file("/bad")
    for times in (1, 2):
        done = project.fetched()
        assert done.code == 1
        got = hashlib.sha256(b"something else").hexdigest()
        assert f"wrong SHA-256: expected {SHA256}, got {got}" in done.err
        assert "Traceback" not in done.err
        assert project.seen == ["/bad"] * times
    assert not list((project.root / "modelbuild-out").rglob("photo.png"))
    project.http_file("/good")
    assert project.fetched().code == 0
    assert project.output().read_bytes() == DATA


def test_another_digest_is_another_file(project: Project) -> None:
    project.http_file("/a")
    assert project.fetched().code == 0
    project.http_file("/a", sha256="0" * 64)
    assert project.fetched().code == 1
    assert project.seen == ["/a", "/a"]


def test_a_file_of_a_wheel_comes_from_where_pip_is_told(project: Project) -> None:
    wheels = project.root / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "nets-1.2.0-py3-none-any.whl", "w") as archive:
        archive.writestr("nets/weights.pt", DATA)
        archive.writestr("nets-1.2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: nets\nVersion: 1.2.0\n")
        archive.writestr("nets-1.2.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("nets-1.2.0.dist-info/RECORD", "")
    text = '[[pypi_file]]\nname = "file"\npackage = "nets"\nversion = "1.2.0"\npath = "nets/weights.pt"\n'
    project.write({"BUILD.toml": f'{text}sha256 = "{SHA256}"\n'})
    done = project.fetched(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels), PIP_CONFIG_FILE="/dev/null")
    assert done.code == 0, done.err
    assert project.output("weights.pt").read_bytes() == DATA
    (wheels / "nets-1.2.0-py3-none-any.whl").unlink()
    assert project.fetched().code == 0
