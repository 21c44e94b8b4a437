"""The record of a build: valid, outdated and unreadable ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from modelbuild.build_record.import_folders import importable
from modelbuild.build_record.record import Record, Stamps, Surroundings, read_record, up_to_date, write_record
from modelbuild.loading.tree import list_folder
from modelbuild.times import below_second

LONG_AGO = 1_600_000_000_123_456_789


MORE = {"out/tree/x": "x", "relied on": ""}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a workspace with sources, a listed folder, an output and a folder of imports, all older than the clock's
    granularity."""
    root = tmp_path / "workspace"
    for name, text in {
        "a.py": "a",
        "b é.bin": "b",
        "listed/x": "x",
        "out/made": "made",
        "lib/m.py": "m",
        **MORE,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    settle()
    return root


def settle() -> None:
    """Wait until the file system's clock has moved on so far that another change would show."""
    time.sleep(0.06)


def record_of(root: Path) -> Record:
    def stamps(time: str, *paths: str, modes: bool = False) -> Stamps:
        states = [os.stat(root / path) for path in paths]
        times = [s.st_ctime_ns if time == "ctime" else below_second(s.st_mtime_ns) for s in states]
        more = [s.st_mode for s in states] if modes else ()
        return Stamps(paths, [s.st_size for s in states], times, [s.st_ino for s in states], more)

    listing = list_folder(str(root), "listed").stamp()
    return Record(
        stamps("ctime", "a.py", str(root / "b é.bin")),
        stamps("mtime", "out/made", "out/tree/x", modes=True),
        Surroundings(
            [(str(root / "lib"), *importable([str(root / "lib")])[str(root / "lib")])],
            [("listed", *listing)],
            ["relied on"],
            ["none.toml"],
        ),
        [("//:a", "default", ("out/made", "out/tree"), "installed"), ("//:nothing", "default", (), "//:tools")],
        7,
    )


@pytest.fixture
def file(root: Path, tmp_path: Path) -> str:
    path = str(tmp_path / "record")
    write_record(path, record_of(root))
    return path


def test_written_records_are_read_again(root: Path, file: str) -> None:
    found, wrote = up_to_date(file, str(root)), record_of(root)
    assert found is not None
    for name in ("files", "outputs"):
        for column in Stamps.__slots__:
            assert list(getattr(getattr(found, name), column)) == list(getattr(getattr(wrote, name), column))
    for name in Surroundings.__slots__:
        assert getattr(found.surroundings, name) == getattr(wrote.surroundings, name)
    assert (found.targets, found.actions, found.surroundings.moved) == (wrote.targets, 7, False)


def keep_time(path: Path, change: Callable[[Path], object]) -> None:
    before = os.stat(path)
    change(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text(path.read_text())
    os.utime(other, ns=(LONG_AGO, os.stat(path).st_mtime_ns))
    os.replace(other, path)


def swap(folder: Path) -> None:
    other = folder.with_name("other")
    other.mkdir()
    (other / "y").write_text("")
    folder.rename(folder.with_name("old"))
    other.rename(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "a.py").write_text("aa"),
        lambda root: keep_time(root / "a.py", lambda path: path.write_text("b")),
        lambda root: (root / "a.py").chmod(0o755),
        lambda root: (root / "a.py").unlink(),
        lambda root: replace(root / "b é.bin"),
        lambda root: (root / "out/made").unlink(),
        lambda root: (root / "out/made").write_text("MADE"),
        lambda root: replace(root / "out/made"),
        lambda root: (root / "out/made").chmod(0o755),
        lambda root: (root / "out/tree/x").write_text("X"),
        lambda root: (root / "out/tree/x").unlink(),
        lambda root: (root / "lib/new.py").write_text(""),
        lambda root: (root / "listed/y").write_text(""),
        lambda root: (root / "listed/x").rename(root / "listed/z"),
        lambda root: keep_time(root / "listed", lambda path: (path / "y").write_text("")),
        lambda root: keep_time(root / "listed", swap),
        lambda root: (root / "none.toml").write_text(""),
        lambda root: (root / "relied on").unlink(),
        lambda root: (root / "relied on").unlink() or (root / "relied on").mkdir(),
    ],
    ids=[
        *("another size", "the same size and time", "executable", "gone", "another file of the same time"),
        *("an output gone", "an output written to", "an output replaced", "an output executable"),
        *("a file in a folder that is an output", "one gone"),
        *("a module more", "a file more", "a file renamed", "a file more and the time set back", "another folder"),
        *("a file whose absence mattered", "a file whose presence mattered", "a folder in its place"),
    ],
)
def test_no_change_is_missed(root: Path, file: str, change: Callable[[Path], object]) -> None:
    assert up_to_date(file, str(root)) is not None
    change(root)
    assert up_to_date(file, str(root)) is None


def test_an_output_may_get_another_hard_link(root: Path, file: str) -> None:
    os.link(root / "out/made", root / "lib/../out/link")
    assert up_to_date(file, str(root)) is not None


def test_a_folder_that_lists_the_same_is_listed_once(root: Path, file: str) -> None:
    os.utime(root / "listed", ns=(LONG_AGO + 1, LONG_AGO + 1))
    settle()
    found = up_to_date(file, str(root))
    assert found is not None
    assert found.surroundings.moved
    again = up_to_date(file, str(root))
    assert again is not None
    assert not again.surroundings.moved
    (root / "listed/y").write_text("")
    assert up_to_date(file, str(root)) is None


def test_a_folder_that_has_just_changed_is_listed_each_time(root: Path, file: str) -> None:
    (root / "listed/y").write_text("")
    (root / "listed/y").unlink()
    found = up_to_date(file, str(root))
    assert found is not None
    assert [ctime for _, ctime, _, _ in found.surroundings.folders] == [0]


def test_byte_code_that_python_keeps_is_no_change(root: Path, file: str) -> None:
    cached = Path(cache_from_source(str(root / "lib/m.py")))
    cached.parent.mkdir()
    cached.write_bytes(b"")
    found = up_to_date(file, str(root))
    assert found is not None
    assert found.surroundings.moved
    (root / "lib/n.py").write_text("")
    assert up_to_date(file, str(root)) is None


@pytest.mark.parametrize("name", ["notes.txt", "build/demo/out.npy", "build/.hidden/m.py", "no-name/m.py", ".m.py"])
def test_files_that_python_cannot_import_are_no_change(root: Path, file: str, name: str) -> None:
    """Python imports from a checkout, for example."""
    (root / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "lib" / name).write_text("")
    found = up_to_date(file, str(root))
    assert found is not None
    assert found.surroundings.moved


@pytest.mark.parametrize(
    "name",
    [
        *("n.py", "n.pyc", "n.so", f"n{EXTENSION_SUFFIXES[0]}", "n.pth", "n-1.dist-info", "n.egg-info/PKG-INFO"),
        *("n/__init__.py", "n/below/below/m.py", "n/m.so"),
    ],
)
def test_importable_files_and_metadata_are_changes(root: Path, file: str, name: str) -> None:
    (root / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "lib" / name).write_text("")
    assert up_to_date(file, str(root)) is None


@pytest.mark.parametrize("reach", ["a link", "a loop", "many files"])
def test_a_folder_that_cannot_be_looked_through_is_a_change(root: Path, file: str, reach: str) -> None:
    folder = root / "lib/n"
    folder.mkdir()
    if reach == "many files":
        for number in range(1001):
            (folder / str(number)).touch()
    else:
        (folder / "below").symlink_to(root if reach == "a link" else ".")
    assert up_to_date(file, str(root)) is None


def test_a_record_that_is_cut_short_anywhere_is_none(root: Path, file: str) -> None:
    data = Path(file).read_bytes()
    for length in range(len(data) - 1):
        Path(file).write_bytes(data[:length])
        assert read_record(file) is None or up_to_date(file, str(root)) is None, length


def test_a_record_in_which_any_byte_is_another_is_none(root: Path, file: str) -> None:
    data = Path(file).read_bytes()
    for place in range(len(data)):
        Path(file).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert read_record(file) is None, place


def test_no_record_is_none(tmp_path: Path) -> None:
    assert read_record(str(tmp_path / "record")) is None
    (tmp_path / "record").write_text("{}")
    assert read_record(str(tmp_path / "record")) is None


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
def test_other_things_than_a_file_are_replaced_by_a_record(
    root: Path, tmp_path: Path, make: Callable[[str], object]
) -> None:
    path = str(tmp_path / "record")
    make(path)
    assert read_record(path) is None
    write_record(path, record_of(root))
    assert up_to_date(path, str(root)) is not None
