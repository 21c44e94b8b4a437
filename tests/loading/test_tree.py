"""A folder's stamp changes whenever decisions based on its listing can change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.errors import EnvironmentProblem
from modelbuild.loading.tree import SourceTree, list_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f/sub").mkdir(parents=True)
    (tmp_path / "f/b").write_text("1")
    (tmp_path / "f/a").write_text("1")
    return tmp_path / "f"


def test_files_and_folders_are_listed_sorted(folder: Path) -> None:
    (folder / "to_file").symlink_to("a")
    (folder / "to_folder").symlink_to("sub")
    (folder / "to_nothing").symlink_to("nothing")
    (folder / "through_a_file").symlink_to("a/b")
    (folder / "in_a_circle").symlink_to("in_a_circle")
    (folder / "too_long").symlink_to("x" * 300)
    (folder / ".hidden").mkdir()
    (folder / "node_modules").mkdir()
    os.mkfifo(folder / "fifo")
    listing = list_folder(str(folder.parent), "f")
    assert listing.files == ("a", "b", "to_file")
    assert listing.folders == (".hidden", "sub")
    broken = {"to_nothing", "through_a_file", "in_a_circle", "too_long"}
    assert set(listing.links) == {"to_file", "to_folder", *broken}
    status = os.stat(folder)
    assert (listing.ctime_ns, listing.inode) == (status.st_ctime_ns, status.st_ino)


def test_a_boundary_is_a_folder_that_is_not_the_packages(folder: Path) -> None:
    assert not list_folder(str(folder.parent), "f").is_boundary()
    for name in ("BUILD.toml", "MODELBUILD.toml", "pyvenv.cfg"):
        (folder / name).touch()
        assert list_folder(str(folder.parent), "f").is_boundary()
        (folder / name).unlink()


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda f: (f / "c").touch(), True),
        (lambda f: (f / "a").unlink(), True),
        (lambda f: (f / "a").rename(f / "z"), True),
        (lambda f: (f / "new").mkdir(), True),
        (lambda f: (f / "sub").rmdir() or (f / "sub").touch(), True),
        (lambda f: (f / "a").write_text("2"), False),
        (lambda f: (f / "modelbuild-out").mkdir(), False),
        (lambda f: (f / "__pycache__").mkdir(), False),
        (lambda f: (f / "sub/x").touch(), False),
    ],
)
def test_names_tell_whether_the_listing_changed(folder: Path, change: Callable[[Path], object], differs: bool) -> None:
    before = list_folder(str(folder.parent), "f").stamp()
    change(folder)
    assert (list_folder(str(folder.parent), "f").stamp().names != before.names) is differs


def test_names_that_are_not_utf8_can_be_listed(folder: Path) -> None:
    os.close(os.open(os.fsencode(folder) + b"/\xff", os.O_CREAT))
    listing = list_folder(str(folder.parent), "f")
    assert listing.files == ("a", "b", "\udcff")
    assert len(listing.stamp().names) == 64


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        list_folder(str(tmp_path), "gone")
    assert str(caught.value) == "folder 'gone' can't be listed: No such file or directory"


def test_where_links_lead_is_noted_since_no_time_of_the_folder_shows_it(folder: Path) -> None:
    for name, target in {"to_file": "a", "to_folder": "sub", "to_nothing": "nothing"}.items():
        (folder / name).symlink_to(target)
    tree = SourceTree(folder.parent)
    tree.list("f")
    assert tree.present == {"f/to_file"}
    assert tree.absent == {"f/to_folder", "f/to_nothing"}
