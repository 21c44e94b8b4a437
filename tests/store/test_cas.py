"""Blobs: kept once, read-only, never served when wrong."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.actions import Digest, FileEntry
from modelbuild.errors import EnvironmentProblem
from modelbuild.store.cas import mark
from modelbuild.store.digests import digest_bytes
from modelbuild.store.interface import MissingBlob
from modelbuild.store.local import LocalStore

Write = Callable[..., Path]

SMALL = b"s" * (16 << 10)  # The biggest that is read whenever it is used.
BIG = b"b" * (16 << 10) + b"!"


def test_bytes_come_back(store: LocalStore) -> None:
    for data in (b"", b"a", os.urandom(200_000)):
        digest = store.put_bytes(data)
        assert digest == digest_bytes(data)
        assert store.read_bytes(digest) == data
        path = store.blob_path(digest)
        assert path.read_bytes() == data
        assert path.stat().st_mode & 0o777 == 0o444


def test_missing_blobs(store: LocalStore) -> None:
    nothing = digest_bytes(b"nothing")
    something = store.put_bytes(b"something")
    assert store.missing([nothing, something]) == {nothing}
    for ask in (store.read_bytes, store.blob_path):
        with pytest.raises(MissingBlob) as caught:
            ask(nothing)
        assert caught.value.digest == nothing


def test_a_digest_with_another_size_is_not_there_and_the_blob_stays(store: LocalStore) -> None:
    digest = store.put_bytes(b"abc")
    assert store.missing([Digest(digest.hash, 4)]) == {Digest(digest.hash, 4)}
    assert store.read_bytes(digest) == b"abc"


def test_a_file_moves_in_without_copying(store: LocalStore, write: Write) -> None:
    path = write("out", b"data")
    inode = path.stat().st_ino
    digest = store.put_file(path)
    assert not path.exists()
    assert store.blob_path(digest).stat().st_ino == inode


def test_a_blob_that_is_there_is_never_written_again(
    store: LocalStore, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(path: Path) -> tuple[int, int, int]:
        status = path.stat()
        return status.st_ino, status.st_mtime_ns, status.st_ctime_ns

    before = look(store.blob_path(store.put_bytes(b"data")))
    store.put_bytes(b"data")
    path = write("out", b"data")
    assert look(store.blob_path(store.put_file(path))) == before
    assert not path.exists()
    monkeypatch.setattr(os, "utime", lambda *_, **__: pytest.fail("written again"))
    store.put_bytes(b"data")


def test_a_blobs_time_is_that_of_its_coming_and_never_ahead(store: LocalStore) -> None:
    """Other build tools compare the times of laid out files."""
    before = time.time_ns()
    came = store.blob_path(store.put_bytes(b"data")).stat().st_mtime_ns
    assert before - 2 * 10**9 < came < time.time_ns()


def test_a_file_with_another_hard_link_is_copied_and_the_other_left_alone(
    store: LocalStore, write: Write, tmp_path: Path
) -> None:
    source = write("source.py", b"data")
    before = source.stat()
    os.link(source, tmp_path / "out")
    digest = store.put_file(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    after = source.stat()
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)
    source.write_bytes(b"edit")
    assert store.read_bytes(digest) == b"data"


def test_a_file_that_may_not_be_read_moves_in(store: LocalStore, write: Write) -> None:
    path = write("out", b"data")
    path.chmod(0)
    assert store.read_bytes(store.put_file(path)) == b"data"


def test_executables_are_kept_apart(store: LocalStore, write: Write) -> None:
    script = store.put_output(write("run", b"data", executable=True))
    plain = store.put_output(write("text", b"data"))
    assert isinstance(script, FileEntry)
    assert isinstance(plain, FileEntry)
    assert (script.executable, plain.executable) == (True, False)
    assert script.digest == plain.digest
    assert store.blob_path(script.digest, executable=True).stat().st_mode & 0o777 == 0o555
    assert store.blob_path(plain.digest).stat().st_mode & 0o777 == 0o444


@pytest.mark.parametrize("executable", [False, True])
def test_one_that_is_kept_only_the_other_way_serves_both(
    store: LocalStore, write: Write, tmp_path: Path, executable: bool
) -> None:
    digest = store.put_file(write("run", b"data", executable=executable))
    assert store.missing([digest]) == set()
    assert store.read_bytes(digest) == b"data"
    for wanted in (False, True):
        store.place(FileEntry(digest, wanted), tmp_path / f"placed-{wanted}")
        assert (tmp_path / f"placed-{wanted}").read_bytes() == b"data"
        assert os.access(tmp_path / f"placed-{wanted}", os.X_OK) == wanted


def overwrite(path: Path) -> None:
    """Other bytes, as many, and all but the time as before."""
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().upper())
    path.chmod(0o444)


def truncate(path: Path) -> None:
    os.truncate(path, 2)


def append(path: Path) -> None:
    path.chmod(0o644)
    with path.open("ab") as file:
        file.write(b"!")


def flip_and_cut_time(path: Path) -> None:
    overwrite(path)
    os.utime(path, ns=(0, path.stat().st_mtime_ns // 10**9 * 10**9))


def flip_with_the_time_of_another_blob(path: Path) -> None:
    overwrite(path)
    os.utime(path, ns=(0, 10**18 + mark(digest_bytes(b"another").hash)))


def to_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/null")


SPOILED = [overwrite, truncate, append, flip_and_cut_time, flip_with_the_time_of_another_blob, to_link, os.unlink]


@pytest.mark.parametrize("data", [b"data", BIG], ids=["small", "big"])
@pytest.mark.parametrize("spoil", SPOILED)
@pytest.mark.parametrize("use", ["read", "path", "place", "missing", "action"])
def test_a_spoiled_blob_is_never_served_and_can_be_put_again(
    store: LocalStore,
    tmp_path: Path,
    remember: Callable[..., object],
    data: bytes,
    spoil: Callable[[Path], None],
    use: str,
) -> None:
    remember(store, "key", data)
    digest = digest_bytes(data)
    spoil(store.blob_path(digest))
    if use == "missing":
        assert store.missing([digest]) == {digest}
    elif use == "action":
        assert store.get_action("key") is None
    else:
        uses: dict[str, Callable[[], object]] = {
            "read": lambda: store.read_bytes(digest),
            "path": lambda: store.blob_path(digest),
            "place": lambda: store.place(FileEntry(digest), tmp_path / "placed"),
        }
        with pytest.raises(MissingBlob):
            uses[use]()
        assert not (tmp_path / "placed").exists()
    assert store.put_bytes(data) == digest
    assert store.read_bytes(digest) == data
    assert store.get_action("key") is not None


@pytest.mark.parametrize("data", [b"data", BIG], ids=["small", "big"])
def test_a_write_through_a_hard_link_is_seen(store: LocalStore, tmp_path: Path, data: bytes) -> None:
    digest = store.put_bytes(data)
    placed = tmp_path / "placed"
    store.place(FileEntry(digest), placed)
    placed.chmod(0o644)
    with placed.open("r+b") as file:
        file.write(b"DA")
    placed.chmod(0o444)
    with pytest.raises(MissingBlob):
        store.blob_path(digest)


def zero_but_keep_the_mark(path: Path) -> None:
    status = path.stat()
    path.chmod(0o644)
    path.write_bytes(bytes(status.st_size))
    path.chmod(status.st_mode)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(("data", "use"), [(BIG, "read"), (b"data", "read"), (b"data", "path"), (SMALL, "path")])
def test_reading_and_using_small_blobs_does_not_rely_on_the_mark(store: LocalStore, data: bytes, use: str) -> None:
    """For example after a machine stops between writing a file's time and its bytes to the disk."""
    digest = store.put_bytes(data)
    path = store.blob_path(digest)
    zero_but_keep_the_mark(path)
    with pytest.raises(MissingBlob):
        store.read_bytes(digest) if use == "read" else store.blob_path(digest)
    assert not path.exists()


def test_big_blobs_are_forced_to_the_disk_before_they_are_marked(
    store: LocalStore, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("fsync", "utime", "link"):
        real = getattr(os, name)

        def call(*args: object, name: str = name, real: Callable[..., None] = real, **kwargs: object) -> None:
            real(*args, **kwargs)
            calls.append(name)

        monkeypatch.setattr(os, name, call)
    store.put_file(write("out", BIG))
    store.put_bytes(BIG + b"x")
    assert calls == ["fsync", "utime", "link"] * 2
    calls.clear()
    store.put_file(write("out", SMALL))
    assert calls == ["utime", "link"]


@pytest.mark.parametrize("touch", [lambda path: os.utime(path), lambda path: path.chmod(0o777)])
def test_a_blob_that_was_only_touched_is_served_and_sealed_again(
    store: LocalStore, touch: Callable[[Path], None]
) -> None:
    digest = store.put_bytes(b"data")
    path = store.blob_path(digest)
    inode = path.stat().st_ino
    touch(path)
    assert store.blob_path(digest) == path
    status = path.stat()
    assert status.st_ino == inode
    assert status.st_mode & 0o777 == 0o444
    assert status.st_mtime_ns % 10**9 == mark(digest.hash)


def test_a_sound_blob_is_not_read_to_be_served(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = store.put_bytes(BIG)
    monkeypatch.setattr("modelbuild.store.cas.FileIO", lambda *_: pytest.fail("read"))
    store.place(FileEntry(digest), tmp_path / "placed")
    assert store.missing([digest]) == set()


def test_a_blob_that_goes_while_it_is_placed(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = store.put_bytes(b"data")
    link = os.link

    def too_late(source: str, target: str) -> None:
        os.unlink(source)
        link(source, target)

    monkeypatch.setattr(os, "link", too_late)
    with pytest.raises(MissingBlob):
        store.place(FileEntry(digest), tmp_path / "placed")


def refusing(number: int) -> Callable[..., None]:
    def call(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_without_hard_links_things_are_moved_and_copied(
    store: LocalStore, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "link", refusing(number))
    digest = store.put_file(write("out", b"data"))
    store.place(FileEntry(digest, executable=True), tmp_path / "placed")
    assert (tmp_path / "placed").read_bytes() == b"data"
    assert (tmp_path / "placed").stat().st_mode & 0o777 == 0o555
    assert (tmp_path / "placed").stat().st_ino != store.blob_path(digest, executable=True).stat().st_ino
    assert list(store.scratch.iterdir()) == []


def test_a_file_of_another_file_system_is_copied(
    store: LocalStore, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("out", b"data", executable=True)
    link, rename = os.link, os.rename
    other = str(path)
    monkeypatch.setattr(os, "link", lambda a, b: refusing(errno.EXDEV)() if a == other else link(a, b))
    monkeypatch.setattr(os, "rename", lambda a, b: refusing(errno.EXDEV)() if a == other else rename(a, b))
    value = store.put_output(path)
    assert value == FileEntry(digest_bytes(b"data"), executable=True)
    assert not path.exists()
    assert store.read_bytes(digest_bytes(b"data")) == b"data"
    assert list(store.scratch.iterdir()) == []


def test_a_file_system_that_copies_no_ranges(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(3_000_000)
    digest = store.put_bytes(data)
    monkeypatch.setattr(os, "link", refusing(errno.EXDEV))
    monkeypatch.setattr(os, "copy_file_range", refusing(errno.EXDEV))
    store.place(FileEntry(digest), tmp_path / "placed")
    assert (tmp_path / "placed").read_bytes() == data


@pytest.mark.parametrize("call", ["fsync", "link", "utime"])
def test_a_full_disk_is_one_line_and_leaves_nothing(
    store: LocalStore, write: Write, cache: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = write("out", BIG)
    monkeypatch.setattr(os, call, refusing(errno.ENOSPC))
    message = f"{cache}: no space left on the disk; free some, then build again"
    for put in (lambda: store.put_bytes(BIG + b"!"), lambda: store.put_file(path)):
        with pytest.raises(EnvironmentProblem) as caught:
            put()
        assert str(caught.value) == message
    monkeypatch.undo()
    assert list(store.scratch.iterdir()) == []
    lost = {digest_bytes(BIG), digest_bytes(BIG + b"!")}
    assert store.missing(lost) == lost


def test_a_file_that_is_still_being_written_to_is_refused(
    store: LocalStore, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("out", bytes(100_000))

    def slow(file: object, name: str) -> object:
        import hashlib

        with path.open("ab") as other:
            other.write(b"more")
        return hashlib.new(name)

    monkeypatch.setattr("hashlib.file_digest", slow)
    with pytest.raises(ValueError, match=r"^out was written to while it was being read$"):
        store.put_file(path)
