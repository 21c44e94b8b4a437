"""An object store that speaks S3: SeaweedFS as a real server."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelbuild.remote.address import parse_address
from modelbuild.remote.client import Client
from modelbuild.remote.open import open_cache
from modelbuild.remote.settings import RemoteSettings
from modelbuild.store.local import LocalStore, open_store


def free_ports(count: int) -> list[int]:
    """Ports that are free, and those 10,000 above, which the server takes for gRPC, as well."""
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


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Environment variables that lead to a server with the empty bucket `cache`."""
    program = Path(sys.prefix, "servers/bin/weed")
    if not program.is_file():
        pytest.fail(f"{program} is not there; 'make venv' installs tests/remote/servers.lock there")
    port, master, volume, filer = free_ports(4)
    keys = {"accessKey": "somebody", "secretKey": "something"}
    actions = ["Admin", "Read", "Write", "List"]
    (tmp_path / "s3.json").write_text(
        json.dumps({"identities": [{"name": "us", "credentials": [keys], "actions": actions}]})
    )
    (tmp_path / "weed").mkdir()
    options = {
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "dir": tmp_path / "weed",
        "s3.port": port,
        "s3.port.iceberg": 0,
        "s3.config": tmp_path / "s3.json",
        "master.port": master,
        "master.volumeSizeLimitMB": 64,
        "volume.port": volume,
        "volume.max": 8,
        "filer.port": filer,
        "metricsPort": 0,
    }
    command = [str(program), "server", "-s3", "-filer", *(f"-{name}={value}" for name, value in options.items())]
    with (tmp_path / "weed.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
    try:
        until = time.monotonic() + 120
        bucket = urllib.request.Request(f"http://127.0.0.1:{filer}/buckets/cache/", method="POST")
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                urllib.request.urlopen(bucket, timeout=10).close()
                break
            except OSError:
                assert process.poll() is None, (tmp_path / "weed.log").read_text()[-2000:]
                assert time.monotonic() < until, (tmp_path / "weed.log").read_text()[-2000:]
                time.sleep(0.2)
        yield {
            "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            "AWS_ACCESS_KEY_ID": keys["accessKey"],
            "AWS_SECRET_ACCESS_KEY": keys["secretKey"],
            "AWS_REGION": "us-east-1",
        }
    finally:
        process.kill()
        process.wait()


def test_an_object_store(
    place: Any, s3: dict[str, str], local: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = place("one"), place("two")
    assert set(one.build("--remote-cache=s3://cache/team", **s3).statuses.values()) == {"ran"}
    assert set(two.build("--remote-cache=s3://cache/team", **s3).statuses.values()) == {"cached"}
    assert two.outputs() == one.outputs()

    # Big enough to be sent in parts.
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    data = random.Random(1).randbytes(1 << 20) * 40
    digest = local.put_bytes(data)
    cache = open_cache(parse_address("s3://cache/team"), RemoteSettings(timeout=60))
    assert cache.missing([digest]) == {digest}
    Client(cache, local, pytest.fail).upload([digest], {})
    with open_store(tmp_path / "other") as other:
        Client(cache, other, pytest.fail).fetch([digest])
        assert other.read_bytes(digest) == data
    cache.close()


def test_keys_that_are_not_known_are_refused_and_said_once(place: Any, s3: dict[str, str]) -> None:
    wrong = {**s3, "AWS_SECRET_ACCESS_KEY": "s3cret"}
    ended = place("one").build("--remote-cache=s3://cache/team", **wrong)
    assert set(ended.statuses.values()) == {"ran"}
    assert len([line for line in ended.err.splitlines() if "remote cache s3://cache/team" in line]) == 2
    assert "s3cret" not in ended.err
