"""Digests of workspace files: an unchanged file is not read, a changed one never mistaken."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from modelbuild.errors import EnvironmentProblem
from modelbuild.store import file_digests
from modelbuild.store.database import Database
from modelbuild.store.digests import digest_bytes, digest_open
from modelbuild.store.file_digests import FileDigests
from modelbuild.store.schemas import INDEX

SECOND = 10**9


class Clock:
    """Far enough ahead that every file is old."""

    def __init__(self) -> None:
        self.ahead = 10 * SECOND

    def __call__(self) -> int:
        import time

        return time.time_ns() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(tmp_path: Path, warnings: list[str]) -> Iterator[Database]:
    (tmp_path / "db").mkdir()
    database = Database(tmp_path / "db", INDEX, warnings.append)
    yield database
    database.close()
    assert warnings == []


@pytest.fixture
def digests(database: Database, clock: Clock) -> FileDigests:
    return FileDigests(database, clock)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of files that were read."""
    names: list[str] = []

    def recorded(file: object) -> object:
        names.append(os.path.basename(file.name))  # type: ignore[attr-defined]
        return digest_open(file)  # type: ignore[arg-type]

    monkeypatch.setattr(file_digests, "digest_open", recorded)
    return names


def test_a_file_is_read_once(
    digests: FileDigests, database: Database, clock: Clock, reads: list[str], write: Callable[..., Path]
) -> None:
    path = write("f", b"data", executable=True)
    state = digests.digest(path)
    assert state.digest == digest_bytes(b"data")
    assert state.executable
    assert state.entry.executable
    assert state.stamp.inode == path.stat().st_ino
    assert digests.digest(path) == state
    assert FileDigests(database, clock).digest(path) == state
    assert reads == ["f"]


def rewrite(path: Path) -> None:
    path.write_bytes(b"DATA")


def rewrite_and_put_the_time_back(path: Path) -> None:
    before = path.stat()
    path.write_bytes(b"DATA")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def put_another_in_its_place_with_its_time(path: Path) -> None:
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(b"DATA")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, path)


def map_and_write(path: Path) -> None:
    import mmap

    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4) as mapped:
        mapped[:] = b"DATA"
        mapped.flush()


def point_elsewhere(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"DATA")
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize(
    "change",
    [rewrite, rewrite_and_put_the_time_back, put_another_in_its_place_with_its_time, map_and_write, point_elsewhere],
)
def test_a_change_is_seen_though_the_size_is_the_same(
    digests: FileDigests, write: Callable[..., Path], change: Callable[[Path], None]
) -> None:
    path = write("f", b"data")
    digests.digest(path)
    change(path)
    assert digests.digest(path).digest == digest_bytes(b"DATA")


def test_the_executable_bit(digests: FileDigests, write: Callable[..., Path]) -> None:
    path = write("f", b"data")
    assert not digests.digest(path).executable
    path.chmod(0o755)
    assert digests.digest(path).executable


@pytest.mark.parametrize(
    ("ctime", "recorded", "trusted"),
    [
        (100 * SECOND + 1, 100 * SECOND + 1, False),
        (100 * SECOND + 1, 100 * SECOND + 50_000_001, False),
        (100 * SECOND + 1, 100 * SECOND + 50_000_002, True),
        (100 * SECOND + 1, 99 * SECOND, False),
        (100 * SECOND, 100 * SECOND + 50_000_002, False),
        (100 * SECOND, 102 * SECOND, False),
        (100 * SECOND, 102 * SECOND + 1, True),
    ],
)
def test_a_file_changed_just_before_it_was_read_is_read_again(
    digests: FileDigests,
    database: Database,
    reads: list[str],
    write: Callable[..., Path],
    ctime: int,
    recorded: int,
    trusted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write("f", b"data")
    real = file_digests._stamp
    monkeypatch.setattr(
        file_digests,
        "_stamp",
        lambda status: file_digests.FileStamp(*(real(status).size, real(status).mtime_ns, ctime, real(status).inode)),
    )
    digests = FileDigests(database, lambda: recorded)
    digests.digest(path)
    digests.digest(path)
    assert reads == (["f"] if trusted else ["f", "f"])


def test_a_file_read_again_later_is_trusted_then(
    digests: FileDigests, clock: Clock, reads: list[str], write: Callable[..., Path]
) -> None:
    path = write("f", b"data")
    clock.ahead = -SECOND
    digests.digest(path)
    digests.digest(path)
    clock.ahead = 10 * SECOND
    digests.digest(path)
    assert len(reads) == 3
    digests.digest(path)
    assert len(reads) == 3


def test_relative_paths_mean_the_same(
    digests: FileDigests, reads: list[str], write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("d/f", b"data")
    monkeypatch.chdir(path.parent)
    assert digests.digest(path) == digests.digest(Path("f")) == digests.digest(Path("../d/f"))
    assert reads == ["f"]


def test_names_that_are_not_utf_8(digests: FileDigests, tmp_path: Path, reads: list[str]) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    path.write_bytes(b"data")
    assert digests.digest(path) == digests.digest(path)
    assert len(reads) == 1


def test_other_things_than_files(digests: FileDigests, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        digests.digest(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        digests.digest(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EnvironmentProblem, match=r"pipe is neither a file nor a folder$"):
        digests.digest(tmp_path / "pipe")


def test_a_file_that_changes_while_it_is_read_is_read_again(
    digests: FileDigests, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("f", b"data")
    changes = iter([b"longer", b"longer still"])

    def changing(file: object) -> object:
        digest = digest_open(file)  # type: ignore[arg-type]
        if data := next(changes, b""):
            path.write_bytes(data)
        return digest

    monkeypatch.setattr(file_digests, "digest_open", changing)
    assert digests.digest(path).digest == digest_bytes(b"longer still")


def test_a_file_that_never_stops_changing(
    digests: FileDigests, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("f", b"data")

    def changing(file: object) -> object:
        digest = digest_open(file)  # type: ignore[arg-type]
        with path.open("ab") as other:
            other.write(b"more")
        return digest

    monkeypatch.setattr(file_digests, "digest_open", changing)
    with pytest.raises(EnvironmentProblem, match="f keeps changing while it is read"):
        digests.digest(path)


def test_files_that_are_gone_are_forgotten(
    digests: FileDigests, database: Database, write: Callable[..., Path]
) -> None:
    kept, gone = write("kept"), write("gone")
    digests.digest(kept)
    digests.digest(gone)
    gone.unlink()
    digests.forget_missing()
    assert database.read("SELECT path FROM files") == [(os.fsencode(kept),)]


def test_a_stamp_is_not_trusted_where_times_prove_nothing_or_on_request(
    database: Database, clock: Clock, tmp_path: Path, reads: list[str]
) -> None:
    path = tmp_path / "file"
    path.write_text("1")
    trusting, distrusting = (FileDigests(database, clock, unsafe) for unsafe in ((), (os.stat(path).st_dev,)))
    state = trusting.digest(path)
    for digests, verify, expected in (
        (trusting, False, []),
        (trusting, True, ["file"]),
        (distrusting, False, ["file"]),
    ):
        reads.clear()
        assert digests.digest(path, verify) == state
        assert reads == expected
