"""A folder is modelbuild's if it was missing or empty when modelbuild marked it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.errors import EnvironmentProblem
from modelbuild.history.database import write_history
from modelbuild.store.local import open_store
from modelbuild.store.ownership import MARK, MARK_FILE, claim


def files(folder: Path) -> dict[str, bytes | None]:
    """Return the contents of a folder: bytes of files, None for folders."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder of the user's with the names of a cache's files."""
    for name in ("tmp/a", "toolchains/b", "cas/ab/c", "lock/d", "trash-1/e", "index-v1.db"):
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_text("mine")
    return tmp_path / "home"


def use(folder: Path) -> None:
    with open_store(folder, max_size=0) as store:
        store.collect()


def write_some_history(folder: Path) -> None:
    write_history(folder, lambda connection: connection.execute("SELECT 1"))


def test_a_missing_or_empty_folder_becomes_a_cache(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for folder in (tmp_path / "missing", tmp_path / "empty", tmp_path / "link"):
        for _ in range(2):
            use(folder)
        assert (folder / MARK_FILE).read_bytes() == MARK


def test_a_cache_whose_mark_was_removed_during_its_use_stays_a_cache(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        (tmp_path / MARK_FILE).unlink()
        digest = store.put_bytes(b"a")
    with open_store(tmp_path) as store:
        assert store.read_bytes(digest) == b"a"


def test_the_history_marks_an_empty_folder_too(tmp_path: Path) -> None:
    write_some_history(tmp_path)
    assert (tmp_path / MARK_FILE).read_bytes() == MARK
    use(tmp_path)


@pytest.mark.parametrize(
    "mark", [None, b"", b"Signature: 8a477f597d28d172789f06886806bc55\n# Of another program\n", MARK[:50], MARK + b"\n"]
)
@pytest.mark.parametrize("work", [use, write_some_history])
def test_a_folder_of_the_user_is_refused_and_not_changed(
    home: Path, mark: bytes | None, work: Callable[[Path], None]
) -> None:
    if mark is not None:
        (home / MARK_FILE).write_bytes(mark)
    before = files(home)
    expected = f"{home} has contents, but no {MARK_FILE} of modelbuild; expected a missing or empty folder"
    if work is use:
        with pytest.raises(EnvironmentProblem, match=f"^{expected}$"):
            work(home)
    else:
        work(home)
    assert files(home) == before


@pytest.mark.parametrize(
    "make", [lambda path: path.mkdir(), lambda path: path.symlink_to("mark"), os.mkfifo, lambda path: path.touch(0)]
)
def test_a_mark_that_is_no_file_is_none(tmp_path: Path, make: Callable[[Path], object]) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/mark").write_bytes(MARK)
    make(tmp_path / "cache" / MARK_FILE)
    with pytest.raises(EnvironmentProblem, match="has contents, but no"):
        use(tmp_path / "cache")


@pytest.mark.parametrize("size", [0, 1, 50])
def test_a_mark_that_was_begun_is_completed(tmp_path: Path, size: int) -> None:
    (tmp_path / MARK_FILE).write_bytes(MARK[:size])
    claim(tmp_path, write=False)
    assert (tmp_path / MARK_FILE).read_bytes() == MARK[:size]
    claim(tmp_path)
    assert (tmp_path / MARK_FILE).read_bytes() == MARK
