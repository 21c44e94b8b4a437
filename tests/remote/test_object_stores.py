"""Object stores as caches: SeaweedFS for S3 and, behind nginx, for Google's dialect of it; Azurite for Azure."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from modelbuild.remote.cache.client import Client
from modelbuild.remote.open import open_cache
from modelbuild.store.local import LocalStore, open_store
from modelbuild.workspace.remote_address import parse_address
from modelbuild.workspace.remote_settings import RemoteSettings

pytestmark = pytest.mark.exhaustive

AZURITE = Path(sys.prefix, "azurite/node_modules/azurite/dist/src/blob/main.js")
SECRET = base64.b64encode(b"something").decode()

# What Google asks for, a token, in front of what speaks the same XML but knows no such token. No emulator of Google's
# store that is in a package takes a plain PUT, a HEAD and an upload in parts, all of which obstore uses.
FRONT = """
daemon off; pid {folder}/pid; error_log {folder}/error.log warn; worker_processes 1; {user}
events {{ worker_connections 64; }}
http {{
  access_log off; client_max_body_size 0;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{
    listen 127.0.0.1:{port};
    if ($http_authorization != "Bearer {secret}") {{ return 401; }}
    location / {{ proxy_set_header Authorization ""; proxy_pass http://127.0.0.1:{behind}; }}
  }}
}}
"""


def free_ports(count: int) -> list[int]:
    """Ports that are free, and those 10,000 above, which SeaweedFS takes for gRPC, as well."""
    found: list[int] = []
    for port in random.Random().sample(range(20_000, 50_000), 500):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            found.append(port)
        if len(found) == count:
            break
    return found


def connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), 1).close()


@contextmanager
def running(command: Sequence[str | Path], log: Path, ready: Callable[[], Any], **variables: str) -> Iterator[None]:
    """Yield a server once `ready` raises no OSError."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, cwd=log.parent, env={**os.environ, **variables})
    try:
        until = time.monotonic() + 120
        while True:
            try:
                ready()
                break
            except OSError:
                assert process.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < until, log.read_text()[-2000:]
                time.sleep(0.2)
        yield
    finally:
        process.terminate()  # nginx's master then ends its workers
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Return the port of a server with the bucket `cache`, for one user and for anonymous access."""
    program = Path(sys.prefix, "servers/bin/weed")
    if not program.is_file():
        pytest.fail(f"{program} is not there; 'make test' installs tests/remote/servers.lock there")
    folder = tmp_path_factory.mktemp("weed")
    port, master, volume, filer = free_ports(4)
    actions = ["Admin", "Read", "Write", "List"]
    keys = {"accessKey": "somebody", "secretKey": "something"}
    users = [{"name": "us", "credentials": [keys], "actions": actions}, {"name": "anonymous", "actions": actions}]
    (folder / "s3.json").write_text(json.dumps({"identities": users}))
    options = {
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "dir": folder,
        "s3.port": port,
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.config": folder / "s3.json",
        "master.port": master,
        "master.volumeSizeLimitMB": 64,
        "volume.port": volume,
        "volume.max": 8,
        "filer.port": filer,
        "metricsPort": 0,
    }
    command = [str(program), "server", "-s3", "-filer", *(f"-{name}={value}" for name, value in options.items())]
    bucket = urllib.request.Request(f"http://127.0.0.1:{filer}/buckets/cache/", method="POST")

    def ready() -> None:
        connect(port)
        urllib.request.urlopen(bucket, timeout=10).close()

    with running(command, folder / "log", ready):
        yield port


@pytest.fixture
def s3(seaweed: int) -> dict[str, str]:
    """Environment variables that lead to the server."""
    return {
        "AWS_ENDPOINT": f"http://127.0.0.1:{seaweed}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "something",
        "AWS_REGION": "us-east-1",
    }


@pytest.fixture
def gs(seaweed: int, tmp_path: Path) -> Iterator[dict[str, str]]:
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("not run: needs nginx")
    (port,) = free_ports(1)
    folder = tmp_path / "front"
    folder.mkdir()
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "conf").write_text(FRONT.format(folder=folder, port=port, behind=seaweed, user=user, secret=SECRET))
    command = [program, "-p", folder, "-e", folder / "error.log", "-c", folder / "conf"]
    with running(command, folder / "log", partial(connect, port)):
        yield {
            "GOOGLE_BASE_URL": f"http://127.0.0.1:{port}",
            "GOOGLE_ALLOW_HTTP": "true",
            "GOOGLE_BEARER_TOKEN": SECRET,
        }


@pytest.fixture
def az(tmp_path: Path) -> Iterator[dict[str, str]]:
    program = shutil.which("node")
    if program is None or not AZURITE.is_file():
        pytest.skip("not run: needs npm")
    (port,) = free_ports(1)
    endpoint = f"http://127.0.0.1:{port}/team"
    command = [program, AZURITE, "--blobHost=127.0.0.1", f"--blobPort={port}", "--inMemoryPersistence"]
    quiet = ["--disableTelemetry", "--silent", "--skipApiVersionCheck"]
    log = tmp_path / "azurite.log"
    ready = partial(connect, port)
    with running([*command, *quiet], log, ready, AZURITE_ACCOUNTS=f"team:{SECRET}"):
        new_container(endpoint)
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": "team",
            "AZURE_STORAGE_ACCOUNT_KEY": SECRET,
            "AZURE_STORAGE_ENDPOINT": endpoint,
            "AZURE_ALLOW_HTTP": "true",
        }


def new_container(endpoint: str) -> None:
    """Make the container `cache`, which no object store client does. Signed as Azure's 'Authorize with Shared Key'."""
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    lines = ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items()), "/team/team/cache"]
    signed = hmac.new(b"something", "\n".join([*lines, "restype:container"]).encode(), hashlib.sha256).digest()
    headers["Content-Length"] = "0"
    headers["Authorization"] = f"SharedKey team:{base64.b64encode(signed).decode()}"
    request = urllib.request.Request(f"{endpoint}/cache?restype=container", headers=headers, method="PUT")
    urllib.request.urlopen(request, timeout=10).close()


# For each store the variable with the secret, and another value for it.
SECRETS = {
    "s3": ("AWS_SECRET_ACCESS_KEY", "s3cret"),
    "gs": ("GOOGLE_BEARER_TOKEN", "t0ken"),
    "az": ("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"s3cret").decode()),
}


@pytest.fixture(params=SECRETS)
def scheme(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def variables(scheme: str, request: pytest.FixtureRequest) -> dict[str, str]:
    found: dict[str, str] = request.getfixturevalue(scheme)
    return found


def test_an_object_store(
    place: Any,
    scheme: str,
    variables: dict[str, str],
    local: LocalStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = f"{scheme}://cache/{scheme}/team"
    one, two = place("one"), place("two")
    assert set(one.build(f"--remote-cache={address}", **variables).statuses.values()) == {"ran"}
    ended = two.build(f"--remote-cache={address}", **variables)
    assert set(ended.statuses.values()) == {"cached"}
    assert two.outputs() == one.outputs()
    assert "remote cache" not in ended.err

    # Big enough to be sent in parts.
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    data = random.Random(1).randbytes(1 << 20) * 40
    digest = local.put_bytes(data)
    cache = open_cache(parse_address(address), RemoteSettings(timeout=60))
    assert cache.missing([digest]) == {digest}
    Client(cache, local, pytest.fail).upload([digest], {})
    assert cache.missing([digest]) == set()
    with open_store(tmp_path / "other") as other:
        Client(cache, other, pytest.fail).fetch([digest])
        assert other.read_bytes(digest) == data
    cache.close()


def test_keys_that_are_not_known_are_refused_and_said_once(place: Any, scheme: str, variables: dict[str, str]) -> None:
    name, wrong = SECRETS[scheme]
    ended = place("one").build(f"--remote-cache={scheme}://cache/team", **{**variables, name: wrong})
    assert set(ended.statuses.values()) == {"ran"}
    assert len([line for line in ended.err.splitlines() if f"remote cache {scheme}://cache/team" in line]) == 2
    assert wrong not in ended.err
