"""Several concurrent builds in one cache: each gets its own results, and no wrong ones."""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.actions import ActionResult
from modelbuild.store.digests import digest_bytes
from modelbuild.store.interface import MissingBlob
from modelbuild.store.local import LocalStore, open_store
from modelbuild.store.schemas import INDEX

PROCESSES = 4


def together(work: Callable[[int], None]) -> None:
    """Run work(0), work(1), ... in separate processes that start at the same moment; all must succeed."""
    reading, writing = os.pipe()
    pids = []
    for number in range(PROCESSES):
        pid = os.fork()
        if pid == 0:
            try:
                os.close(writing)
                os.read(reading, 1)
                work(number)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        pids.append(pid)
    os.close(writing)
    os.close(reading)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * PROCESSES


def outputs_of(number: int) -> bytes:
    """Return the output of action `number`, equal in every build; one blob in three is shared with other actions."""
    return str(number // 3).encode() * 100


def use(store: LocalStore, number: int, sandbox: Path) -> None:
    """Use one action like a build: from the cache or by running it; then place and read its output."""
    key = f"key {number}"
    result = store.get_action(key)
    if result is None:
        (store.scratch / sandbox.name).write_bytes(outputs_of(number))
        result = ActionResult((("o", store.put_output(store.scratch / sandbox.name)),))
        store.put_action(key, result, {"number": number})
        assert store.get_action(key) == result
    store.place(result.output("o"), sandbox)
    assert sandbox.read_bytes() == outputs_of(number)
    sandbox.unlink()


@pytest.mark.parametrize("cap", [None, 3000], ids=["no cap", "evicting"])
def test_builds_at_once(cache: Path, tmp_path: Path, cap: int | None) -> None:
    def work(process: int) -> None:
        dice = random.Random(process)
        said: list[str] = []
        for _ in range(5):
            with open_store(cache, max_size=cap, warn=said.append) as store:
                for _ in range(40):
                    use(store, dice.randrange(60), tmp_path / f"sandbox-{process}")
        assert said == []

    together(work)
    with open_store(cache) as store:
        verified = store.verify()
        assert (verified.bad, verified.actions) == ((), 0)
        assert store.collect().blobs == 0 or cap is not None
        assert os.listdir(store.scratch) == []
        if cap is None:
            assert store.stat().blobs == 20


def test_the_first_use_of_a_cache(tmp_path: Path) -> None:
    """Making the folders and the database is a race, so run it often."""
    for attempt in range(12):
        cache = tmp_path / str(attempt)

        def work(process: int, cache: Path = cache) -> None:
            said: list[str] = []
            with open_store(cache, warn=said.append) as store:
                store.put_action(f"{process}", ActionResult((("o", store.put_output(_file(store, process))),)), {})
                assert store.get_action(f"{process}") is not None
            assert said == []

        together(work)
        with open_store(cache) as store:
            assert store.stat().actions == PROCESSES


def _file(store: LocalStore, process: int) -> Path:
    path = store.scratch / f"file-{process}"
    path.write_bytes(b"same")
    return path


def test_a_database_found_broken_by_all_at_once(cache: Path) -> None:
    with open_store(cache) as store:
        store.put_action("old", ActionResult((("o", store.put_output(_file(store, 9))),)), {})
    INDEX.newest(cache)[0].write_bytes(b"junk" * 10_000)

    def work(process: int) -> None:
        with open_store(cache, warn=lambda message: None) as store:
            for i in range(20):
                store.put_action(f"{process} {i}", ActionResult((("o", store.put_output(_file(store, process))),)), {})
                assert store.get_action(f"{process} {i}") is not None

    together(work)
    assert len(list(cache.glob("index-v*.db"))) == 2
    with open_store(cache) as store:
        assert store.stat().actions == 20 * PROCESSES


def test_blobs_that_somebody_spoils_all_the_while(cache: Path) -> None:
    """Three builds read a file that a fourth process keeps overwriting: they get the correct content or none."""
    data = b"data" * 100
    digest = digest_bytes(data)

    def work(process: int) -> None:
        with open_store(cache) as store:
            for _ in range(150):
                store.put_bytes(data)
                try:
                    path = store.blob_path(digest)
                    if process == 0:
                        path.chmod(0o644)
                        path.write_bytes(data.upper())
                    else:
                        assert store.read_bytes(digest) == data
                except (MissingBlob, FileNotFoundError):
                    continue

    together(work)
    with open_store(cache) as store:
        store.put_bytes(data)
        assert store.read_bytes(digest) == data
        assert store.verify().bad == ()
