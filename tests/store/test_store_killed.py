"""kill -9 at any moment: the remaining contents are correct, and the next build succeeds."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from modelbuild.actions import ActionResult, FileEntry, Tree
from modelbuild.store.action_cache import ActionCache
from modelbuild.store.codec import blobs_of
from modelbuild.store.database import Database
from modelbuild.store.digests import digest_bytes
from modelbuild.store.local import LocalStore, open_store
from modelbuild.store.schemas import INDEX


def check_all(cache: Path) -> int:
    """Everything that can be found is right. How many actions can be."""
    with open_store(cache) as store:
        with closing(Database(cache, INDEX, print)) as index:
            keys = [row.key for row in ActionCache(index).rows() or ()]
        for key in keys:
            result = store.get_action(key)
            assert result is not None, "an action was remembered before all its blobs were there"
            for digest in blobs_of(result):
                assert digest_bytes(store.blob_path(digest).read_bytes()) == digest
        assert store.verify().bad == ()
        return len(keys)


def build(store: LocalStore, work: Path, number: int) -> None:
    """Store an action's result like an executor."""
    folder = store.scratch / f"sandbox-{number}"
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "same").write_bytes(b"same")
    (folder / "out" / "own").write_bytes(str(number).encode() * 1000)
    (folder / "run").write_bytes(b"same")
    (folder / "run").chmod(0o755)
    outputs = (("tree", store.put_output(folder / "out")), ("run", store.put_output(folder / "run")))
    result = ActionResult(outputs, stdout=store.put_bytes(f"log {number}".encode()))
    store.put_action(f"{number:x}", result, {"step": "s"})
    store.place(outputs[0][1], work / f"placed-{number}")


def test_killed_after_each_system_call(cache: Path, tmp_path: Path, kill_at_each_call: Callable[..., int]) -> None:
    runs = iter(range(10**6))
    tops: Iterator[Path] = (tmp_path / f"run-{i}" for i in runs)
    top = next(tops)
    top.mkdir()

    def work() -> None:
        build(open_store(cache), top, 1)

    def check() -> None:
        nonlocal top
        check_all(cache)
        top = next(tops)
        top.mkdir()
        # The next one starts with an empty cache again.
        with open_store(cache, max_size=0) as store:
            store.collect()
            assert os.listdir(store.scratch) == []
            assert store.stat().blobs == 0

    assert kill_at_each_call(work, check) > 15


@pytest.mark.parametrize("seed", range(8))
def test_killed_at_random(cache: Path, tmp_path: Path, seed: int) -> None:
    """The child reports each stored action; it is killed during the action after the last report."""
    dice = random.Random(seed)
    survive = dice.randrange(1, 25)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        store = open_store(cache)
        for number in range(10**6):
            build(store, tmp_path, number)
            os.write(writing, b".")
    os.close(writing)
    for _ in range(survive):
        assert os.read(reading, 1) == b"."
    for _ in range(dice.randrange(3000)):
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reading)
    assert check_all(cache) >= survive
    with open_store(cache) as store:
        assert not store.collect().busy, "a killed process holds no lock"
        assert os.listdir(store.scratch) == []
        build(store, tmp_path, 10**7)
        assert store.get_action("0") is not None


def test_half_written_files_are_not_found(cache: Path) -> None:
    """Leave files as a power failure does: the name exists, the bytes are lost (all of them), the time differs."""
    with open_store(cache) as store:
        digest = store.put_bytes(bytes(5000) + b"end")
        store.put_action("k", ActionResult((("t", Tree((("f", FileEntry(digest)),))),)), {})
        for size in (0, 4096, 5003):
            path = store.blob_path(digest)
            path.unlink()
            path.write_bytes(bytes(size))
            assert store.get_action("k") is None
            assert store.put_bytes(bytes(5000) + b"end") == digest
            assert store.get_action("k") is not None
