"""Big blobs go from and to the disk: how much memory that takes does not depend on their size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Brings a file of so many MiB up and down; prints how many MiB more than before that took at the most.
SCRIPT = """
import random, re, sys
from pathlib import Path
from modelbuild.workspace.remote_address import parse_address
from modelbuild.remote.cache.client import Client
from modelbuild.remote.open import open_cache
from modelbuild.workspace.remote_settings import RemoteSettings
from modelbuild.store.local import open_store

def memory(what):
    return int(re.search(what + r":\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10

folder, address, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
block = random.Random(0).randbytes(1 << 20)
with (folder / "big").open("wb") as file:
    for number in range(size):
        file.write(number.to_bytes(4, "big") + block[4:])
cache = open_cache(parse_address(address), RemoteSettings(timeout=60))
with open_store(folder / "one") as one, open_store(folder / "two") as two:
    cache.missing([one.put_bytes(b"")])
    before = memory("VmRSS")
    digest = one.put_file(folder / "big")
    Client(cache, one, sys.exit).upload([digest], {})
    up = memory("VmHWM") - before
    Client(cache, two, sys.exit).fetch([digest])
    assert digest.size == size << 20 and not two.missing([digest])
cache.close()
print(up, memory("VmHWM") - before)
"""
BIG = pytest.param(2048, marks=[pytest.mark.exhaustive, pytest.mark.slow])


@pytest.mark.parametrize("size", [192, BIG])
@pytest.mark.parametrize("kind", ["grpc", pytest.param("http", marks=pytest.mark.exhaustive), "file"])
def test_a_big_blob_is_never_in_memory(request: pytest.FixtureRequest, tmp_path: Path, kind: str, size: int) -> None:
    if kind == "grpc":
        address = request.getfixturevalue("casd").address
    else:
        address = request.getfixturevalue("nginx") if kind == "http" else f"file://{tmp_path}/objects"
    command = [sys.executable, "-c", SCRIPT, tmp_path, address, str(size)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ, check=True)
    up, both = map(int, done.stdout.split())
    assert max(up, both) < 128
