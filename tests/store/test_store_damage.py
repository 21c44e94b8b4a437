"""Arbitrary contents of a cache's folder: the store removes foreign files and makes missing ones."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.actions import ActionResult, FileEntry
from modelbuild.errors import EnvironmentProblem
from modelbuild.execution.scratch import Scratch
from modelbuild.history.action_facts import ActionFacts
from modelbuild.history.measurements import Measures
from modelbuild.history.write import BuildFacts
from modelbuild.history.write import remember as remember_build
from modelbuild.store.digests import digest_bytes
from modelbuild.store.local import open_store

SMALL, LARGE = b"small", bytes(range(256)) * 100
FACTS = ActionFacts("//:a#b", "//:a", "b", "key", "ran", 1.0, {}, {}, ())
HASH = digest_bytes(SMALL).hash


def make_folder(path: Path) -> None:
    (path / "with/some").mkdir(parents=True)
    (path / "with/some/files").write_text("")
    (path / "with/some").chmod(0o500)


def decoy(path: Path) -> Path:
    """Return another program's folder beside the cache, with names like those of a cache."""
    cache = next(parent for parent in path.parents if parent.name == "cache")
    folder = cache.with_name("elsewhere")
    for name in DECOYS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    return folder


DECOYS = ("file", "lock", "build-1/lock", "build-1/file", f"{HASH[:2]}/{HASH}", f"{HASH[:2]}/file")


def make_socket(path: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(path.parent)  # since the path of a socket must be short
    server.bind(path.name)
    os.chdir(here)
    server.close()


def make_device(path: Path) -> None:
    """Make a file that can be read without end."""
    try:
        os.mknod(path, 0o020666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("not run: devices can be made by root alone")


KINDS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "an empty file": lambda path: path.write_bytes(b""),
    "a file of garbage": lambda path: path.write_bytes(b"garbage" * 1000),
    "a file that may not be read": lambda path: path.touch(0o000),
    "a folder": make_folder,
    "an empty folder": lambda path: path.mkdir(),
    "a folder that may not be entered": lambda path: path.mkdir(0o000),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a file": lambda path: path.symlink_to(decoy(path) / "file"),
    "a link to a folder": lambda path: path.symlink_to(decoy(path)),
    "a link to what never ends": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": lambda path: os.mkfifo(path),
    "a socket": make_socket,
    "a device": make_device,
}
PLACES = [
    *("cas", f"cas/{HASH[:2]}", f"cas/{HASH[:2]}/{HASH}", "tmp", "tmp/lock", "lock"),
    *("index.lock", "index-v2.0.db", "index-v2.0.db-wal", "index-v2.0.db-shm", "index-v2.0.db-journal"),
    *("history.lock", "history-v4.0.db", "history-v4.0.db-wal", "history-v4.0.db-shm", "history-v4.0.db-journal"),
    *("tmp/build-1", "cas/stray", "stray"),
]


def fill(cache: Path, said: list[str], alone: bool = True) -> None:
    """Use a cache like a build. `alone`: the process can see that there is no other."""
    with open_store(cache, warn=said.append) as store:
        scratch = Scratch(store.scratch)
        output = scratch.path / "output"
        output.mkdir()
        (output / "large").write_bytes(LARGE)
        tree = store.put_output(output)
        small = store.put_bytes(SMALL)
        result = ActionResult((("tree", tree), ("small", FileEntry(small))))
        store.put_action("key", result, {"step": "s"})
        assert store.read_bytes(small) == SMALL
        place = cache.parent / "placed"
        store.place(tree, place)
        assert (place / "large").read_bytes() == LARGE
        shutil.rmtree(place)
        scratch.close()
        assert not (store.collect().busy and alone)
    remember_build(cache, cache.parent, BuildFacts(1.0, True, {"//:a#b": FACTS}, {}, {("//:a", "bytes"): 1.0}))


def put_in_place(cache: Path, place: str, make: Callable[[Path], object]) -> Path:
    path = cache / place
    if os.path.lexists(path):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    return path


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        # Each place and each kind are in the sample.
        pytest.param(place, kind, marks=pytest.mark.exhaustive if (row + column) % 2 else ())
        for row, place in enumerate(PLACES)
        for column, kind in enumerate(KINDS)
    ],
)
def test_any_damage_of_the_cache_is_repaired(cache: Path, place: str, kind: str, as_user: Callable[..., int]) -> None:
    fill(cache, [])
    put_in_place(cache, place, KINDS[kind])

    def work() -> None:
        said: list[str] = []
        fill(cache, said)
        assert len(said) <= 1
        # No repair and no warning remains.
        again: list[str] = []
        fill(cache, again)
        with open_store(cache, warn=again.append) as store:
            assert store.get_action("key") is not None
            assert store.verify().bad == ()
        assert again == []
        assert Measures(cache, cache.parent).last("//:a", "bytes") == 1.0

    assert as_user(work) == 0
    elsewhere = cache.with_name("elsewhere")
    assert all((elsewhere / name).read_text() == "mine" for name in DECOYS if elsewhere.exists())
    assert len([path for path in elsewhere.rglob("*") if path.is_file()]) in (0, len(DECOYS))


def somebody_elses_file(path: Path) -> None:
    path.write_bytes(b"mine")
    path.chmod(0o600)
    os.chown(path, 65534, 65534)


def somebody_elses_folder(path: Path) -> None:
    path.mkdir()
    somebody_elses_file(path / "file")
    path.chmod(0o700)
    os.chown(path, 65534, 65534)


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: files of others can be made by root alone")
@pytest.mark.parametrize("make", [somebody_elses_file, somebody_elses_folder])
@pytest.mark.parametrize("place", PLACES)
def test_files_of_other_users_are_skipped_or_named_in_one_line(
    cache: Path, place: str, make: Callable[[Path], None], as_user: Callable[..., int]
) -> None:
    fill(cache, [])
    path = put_in_place(cache, place, make)

    def work() -> None:
        problem = ""
        try:
            fill(cache, [], alone=False)
        except (EnvironmentProblem, OSError) as error:  # of which the executor makes one
            problem = str(error)
        assert not problem or str(cache) in problem
        assert "\n" not in problem

    assert as_user(work) == 0
    assert not path.exists() or path.stat().st_uid in (65534, os.geteuid())
