"""Files that a user names: old contents or new ones, whole, and one error if the disk is full."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from modelbuild.errors import EnvironmentProblem, UsageError
from modelbuild.events import BuildFinished, Notice, Reporter
from modelbuild.report.files.build_events import BuildEvents
from modelbuild.report.files.comparison import Comparison
from modelbuild.report.files.junit import JUnit
from modelbuild.report.files.markdown import Markdown
from modelbuild.report.files.trace import Trace
from modelbuild.report.page.recorder import About, Page
from modelbuild.report.reporter_scope import SeveralReporters
from modelbuild.user_files import append_file, begin_file, check_file, write_file

Child = Callable[[Callable[[], None]], int]


def page(path: Path) -> Page:
    about = About("w", "modelbuild build", None, False, lambda actions: {}, lambda built: (), 0.0)
    return Page(path, about, comparison())


def comparison() -> Comparison:
    return Comparison(lambda subject, name: None, lambda *arguments: (), lambda outputs: 0)  # type: ignore[arg-type]


RECORDERS: dict[str, Callable[[Path], Reporter]] = {
    "trace": Trace,
    "junit": JUnit,
    "page": page,
    "summary": lambda path: Markdown(path, comparison()),
    "events": BuildEvents,
}


def limit_files(size: int) -> None:
    """Let this process write no file of more bytes. Python ignores the signal, so writing fails like on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_file(path, "one\ud800")
    assert path.read_bytes() == b"one\\ud800"
    path.chmod(0o640)
    (tmp_path / "link").symlink_to(path.name)
    (tmp_path / "hard").hardlink_to(path)
    write_file(tmp_path / "link", b"two")
    assert (tmp_path / "link").is_symlink()
    assert (path.read_bytes(), (tmp_path / "hard").read_bytes()) == (b"two", b"one\\ud800")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["hard", "link", path.name]


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    write_file(tmp_path / "one", b"")
    (tmp_path / "two").write_bytes(b"")
    assert (tmp_path / "one").stat().st_mode == (tmp_path / "two").stat().st_mode


def test_a_pipe_and_the_standard_output_stay(tmp_path: Path, child: Child) -> None:
    read, write = os.pipe()
    write_file(Path(f"/dev/fd/{write}"), b"piped")
    assert os.read(read, 9) == b"piped"
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "fifo", b"piped")
    assert os.read(reader, 9) == b"piped"
    with open(tmp_path / "out", "wb") as out:

        def work() -> None:
            os.dup2(out.fileno(), 1)
            write_file(Path("/dev/stdout"), b"printed")

        assert child(work) == 0
        assert out.fileno() >= 0
        assert os.path.samestat(os.fstat(out.fileno()), os.stat(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"printed"


@pytest.mark.parametrize("write", [write_file, begin_file])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, child: Child, write: Callable[..., object]) -> None:
    (tmp_path / "f").write_bytes(b"old")

    def work() -> None:
        limit_files(4096)
        for path in (tmp_path / "f", tmp_path / "new"):
            with pytest.raises(EnvironmentProblem, match=f"^{path}: File too large$"):
                write(path, b"new" * 4096)

    assert child(work) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"old"}


def test_a_full_disk_leaves_a_file_that_was_to_grow(tmp_path: Path, child: Child) -> None:
    (tmp_path / "f").write_bytes(b"old")

    def work() -> None:
        limit_files(4096)
        with pytest.raises(EnvironmentProblem, match="File too large"):
            append_file(tmp_path / "f", "new" * 4096)

    assert child(work) == 0
    assert (tmp_path / "f").read_bytes() == b"old"
    append_file(tmp_path / "f", " new")
    assert (tmp_path / "f").read_bytes() == b"old new"


@pytest.mark.parametrize("kind", [name for name in RECORDERS if name != "events"])
def test_a_recorder_leaves_the_old_file(tmp_path: Path, child: Child, kind: str) -> None:
    (tmp_path / "f").write_text("old")

    def work() -> None:
        recorder = RECORDERS[kind](tmp_path / "f")
        assert (tmp_path / "f").read_text() == "old"
        limit_files(8)
        with pytest.raises(EnvironmentProblem, match=f"^{tmp_path}/f: File too large$"):
            recorder.close()

    assert child(work) == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"f": "old"}


def test_a_stream_of_events_ends_at_a_full_disk_and_says_so(tmp_path: Path, child: Child) -> None:
    def work() -> None:
        events = BuildEvents(tmp_path / "f")
        limit_files(400)
        for _ in range(10):
            events.emit(Notice("some text " * 10))
        with pytest.raises(EnvironmentProblem, match=f"^{tmp_path}/f: File too large$"):
            events.close()

    assert child(work) == 0
    assert (tmp_path / "f").read_bytes().startswith(b'{"event": "stream_started"')


def test_all_recorders_are_closed_and_named_in_one_error(tmp_path: Path, child: Child) -> None:
    def work() -> None:
        names = ("trace", "junit", "page")
        several = SeveralReporters([*(RECORDERS[name](tmp_path / name) for name in names), JUnit(Path("/dev/null"))])
        several.emit(BuildFinished(1.0))
        limit_files(8)
        with pytest.raises(EnvironmentProblem) as caught:
            several.close()
        assert str(caught.value) == "; ".join(f"{tmp_path}/{name}: File too large" for name in names)

    assert child(work) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [("none/f", "No such file or directory"), ("file/f", "Not a directory"), (".", "Is a directory")],
)
@pytest.mark.parametrize("act", [check_file, lambda path: write_file(path, b"")])
def test_a_path_that_cannot_be_written(tmp_path: Path, path: str, reason: str, act: Callable[[Path], None]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=f": {reason}$"):
        act(tmp_path / path)
    assert os.listdir(tmp_path) == ["file"]


def test_permissions(tmp_path: Path, as_user: Child) -> None:
    """A read-only file is refused; a file in a read-only folder is written in place."""
    tmp_path.chmod(0o755)
    for name, mode in (("read-only", 0o444), ("closed/f", 0o666)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"old")
        (tmp_path / name).chmod(mode)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "read-only").rename(tmp_path / "open/read-only")
    (tmp_path / "closed").chmod(0o555)

    def work() -> None:
        for path in (tmp_path / "open/read-only", tmp_path / "closed/new"):
            for act in (check_file, lambda path: write_file(path, b"new")):
                with pytest.raises(UsageError, match=r": Permission denied$"):
                    act(path)
        check_file(tmp_path / "closed/f")
        write_file(tmp_path / "closed/f", b"new")

    assert as_user(work) == 0
    assert (tmp_path / "open/read-only").read_bytes() == b"old"
    assert (tmp_path / "closed/f").read_bytes() == b"new"


def test_junit_is_what_the_library_would_write(tmp_path: Path) -> None:
    recorder = JUnit(tmp_path / "f")
    recorder.close()
    assert (tmp_path / "f").read_bytes().startswith(b"<?xml version='1.0' encoding='utf-8'?>\n")
    assert ElementTree.parse(tmp_path / "f").getroot().tag == "testsuites"


def test_a_stream_continues_after_its_first_part(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with begin_file(tmp_path / "f", b"one") as file:
        assert (tmp_path / "f").read_bytes() == b"one"
        file.write(b" two")
    assert (tmp_path / "f").read_bytes() == b"one two"
