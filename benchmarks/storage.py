"""Measure large files: hashing a new and an unchanged one, and laying out cached results.

    benchmarks/storage.py [--weights GB] [--outputs GB]

Files are sparse, and in the page cache when they are hashed, like weights that were just written. So the figures
measure the processor and the file system's metadata, not the disk.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from modelbuild.actions import FileEntry
from modelbuild.store.local import open_store
from modelbuild.store.output_tree import lay_out

GB = 1_000_000_000


def timed(work: Callable[[], object]) -> float:
    """Return processor seconds; on a shared machine, wall-clock time would include others' work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def digest_speed() -> float:
    """Return the speed of SHA-256 over memory in bytes per second, in one thread: the best of three."""
    data = bytes(64 << 20)
    return max(len(data) / timed(lambda: hashlib.sha256(data).digest()) for _ in range(3))


def read_bytes() -> int:
    """Return the number of bytes that this process has read so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=float, default=2.0)
    parser.add_argument("--outputs", type=float, default=5.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        weights = sparse(root / "weights", int(chosen.weights * GB))
        with weights.open("rb", buffering=0) as file:
            while file.read(1 << 24):
                pass
        speed = digest_speed()
        with open_store(root / "cache") as store:
            new = timed(lambda: store.files.digest(weights))
            before = read_bytes()
            known = timed(lambda: store.files.digest(weights))
            read = read_bytes() - before
            pieces = 10
            entries = {}
            for number in range(pieces):
                piece = sparse(root / "piece", int(chosen.outputs * GB / pieces) + number)
                entries[f"engine{number}"] = FileEntry(store.put_file(piece))
            lay = timed(lambda: lay_out(store, root / "out", "engines", entries))
            shared = all(os.stat(root / "out/engines" / name).st_nlink == 2 for name in entries)
    expected = chosen.weights * GB / speed
    print(f"SHA-256 over memory, one core: {speed / GB:.2f} GB/s")
    print(
        f"hashing a new file of {chosen.weights} GB: {new:.2f} s, {new / expected:.2f} of what the digest alone takes"
    )
    print(f"the same file again: {known * 1000:.1f} ms, {read} bytes read (the database's)")
    copied = "no" if shared else "all"
    print(f"laying out {chosen.outputs} GB in {pieces} files: {lay * 1000:.0f} ms, {copied} bytes copied")


if __name__ == "__main__":
    main()
