"""A real registry, a proxy in front of it, and a workspace without torch to publish."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from modelbuild.publish.content import Attachment, Content, read_files
from modelbuild.registry import client
from tests.publish.registry import PROGRAM, Registry
from tests.workspace_builder import Workspace

BUILD = """
[[filegroup]]
name = "net"
srcs = ["net.pte", "run.sh"]

[[py_test]]
name = "net_test"
srcs = ["test_net.py"]
data = [":net"]

[[release]]
name = "net_1_2"
version = "1.2.0"
artifacts = [":net"]
tests = [":net_test"]
notes = "NOTES.md"
"""
FILES = {
    "MODELBUILD.toml": "",
    "m/BUILD.toml": BUILD,
    "m/net.pte": "program 1\n",
    "m/run.sh": "#!/bin/sh\n",
    "m/NOTES.md": "faster\n",
    "m/test_net.py": "def test_net():\n    pass\n",
}
TARGET, RELEASE = "//m:net", "//m:net_1_2"


@pytest.fixture(scope="session")
def _shared_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry | None]:
    if PROGRAM is None:
        yield None
        return
    server = Registry(tmp_path_factory.mktemp("registry"))
    yield server
    server.kill()


@pytest.fixture
def registry(_shared_registry: Registry | None) -> Registry:
    """Return a registry that tests share: each uses a name of its own in it."""
    if _shared_registry is None:
        pytest.skip("not run: needs docker-registry")
    return _shared_registry


@pytest.fixture
def start_registry(tmp_path: Path) -> Iterator[Callable[..., Registry]]:
    """start_registry(...) returns an empty registry for one test."""
    if PROGRAM is None:
        pytest.skip("not run: needs docker-registry")
    started: list[Registry] = []

    def start(**options: Any) -> Registry:
        started.append(Registry(tmp_path / f"registry{len(started)}", **options))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture(scope="session")
def proxies() -> ModuleType:
    spec = importlib.util.spec_from_file_location("proxy", Path(__file__).parents[1] / "remote/proxy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def no_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home folder without logins, and no waiting between attempts."""
    for name in ("DOCKER_CONFIG", "DOCKER_AUTH_CONFIG", "REGISTRY_AUTH_FILE", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make attempts follow each other quickly."""
    monkeypatch.setattr(client, "ATTEMPTS", (0.0,) * 6)
    monkeypatch.setattr("modelbuild.publish.uploads.ATTEMPTS", (0.0,) * 6)


@pytest.fixture
def content(tmp_path: Path) -> Callable[..., Content]:
    """content({"net.pte": b"..."}, provenance=b"...") returns files to publish, and documents about them."""

    def make(files: Mapping[str, bytes], **documents: bytes) -> Content:
        folder = tmp_path / hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:8]
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        outputs = {name.partition("/")[0]: folder / name.partition("/")[0] for name in files}
        attached = [
            Attachment(f"application/x-{name}", f"{name}.json", "text/json", data) for name, data in documents.items()
        ]
        return Content(read_files(outputs), {}, attached)

    return make


@pytest.fixture
def project(workspace: Workspace) -> Workspace:
    """Return a workspace with two files, a test and a release."""
    workspace.write(FILES)
    (workspace.root / "m/run.sh").chmod(0o755)
    return workspace
