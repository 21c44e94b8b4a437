"""A folder that was listed has other files: no time that a program set, no swap and no link hides that from a build."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

LONG_AGO = 1_600_000_000_123_456_789

FILES = {
    "a/BUILD.toml": '[[filegroup]]\nname = "found"\nsrcs = { glob = ["**/*.txt"] }\n'
    '[[filegroup]]\nname = "named"\nsrcs = ["deep/named.dat", "linked/version.dat"]\n',
    "a/1.txt": "1",
    "a/sub/2.txt": "2",
    "a/deep/named.dat": "named",
    "v1/version.dat": "version 1",
    "v2/version.dat": "version 2",
    "real/BUILD.toml": '[[filegroup]]\nname = "found"\nsrcs = { glob = ["**/*.txt"] }\n',
    "real/below/3.txt": "3",
    "elsewhere/4.txt": "4",
    "outside": "outside",
}
TARGETS = ("//a:found", "//a:named", "//through:found")


@contextmanager
def times_kept(*folders: Path) -> Iterator[None]:
    """Set the folders' times back afterwards, as `touch -r`, `tar` and `rsync -t` do."""
    before = [os.stat(folder) for folder in folders]
    yield
    for folder, status in zip(folders, before, strict=True):
        os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))


def add_a_file(root: Path) -> None:
    with times_kept(root / "a"):
        (root / "a/new.txt").write_text("new")


def add_a_file_further_down(root: Path) -> None:
    with times_kept(root / "a", root / "a/sub"):
        (root / "a/sub/new.txt").write_text("new")


def remove_a_file(root: Path) -> None:
    with times_kept(root / "a/sub"):
        (root / "a/sub/2.txt").unlink()


def unpack_an_archive(root: Path) -> None:
    (root / "a/sub/more").mkdir()
    (root / "a/sub/more/new.txt").write_text("new")
    for path in (root / "a/sub/more/new.txt", root / "a/sub/more", root / "a/sub"):
        os.utime(path, ns=(LONG_AGO, LONG_AGO))


def _swap(folder: Path, scratch: Path) -> None:
    """Replace a folder by a copy with one more file."""
    shutil.copytree(folder, scratch, symlinks=True, copy_function=os.link)
    with times_kept(folder.parent):
        (scratch / "sub").mkdir(exist_ok=True)
        (scratch / "sub/new.txt").write_text("new")
        shutil.copystat(folder, scratch)
        folder.rename(scratch.with_name("old"))
        scratch.rename(folder)


def swap_a_folder(root: Path) -> None:
    _swap(root / "a/sub", root / "other")


def swap_the_package(root: Path) -> None:
    _swap(root / "a", root / "other")


def make_a_folder_a_package(root: Path) -> None:
    with times_kept(root / "a", root / "a/sub"):
        (root / "a/sub/BUILD.toml").write_text("")


def make_a_folder_on_the_way_to_a_file_a_package(root: Path) -> None:
    with times_kept(root / "a", root / "a/deep"):
        (root / "a/deep/BUILD.toml").write_text("")


def give_a_dangling_link_its_target(root: Path) -> None:
    (root / "missing").write_text("not missing")


def take_a_link_its_target(root: Path) -> None:
    (root / "outside").unlink()


def lead_a_link_elsewhere(root: Path) -> None:
    with times_kept(root / "a"):
        (root / "a/link.txt").unlink()
        (root / "a/link.txt").symlink_to("../v1/version.dat")


def lead_a_link_to_a_folder_elsewhere(root: Path) -> None:
    with times_kept(root / "a"):
        (root / "a/linked").unlink()
        (root / "a/linked").symlink_to("../v2")


def lead_a_linked_package_elsewhere(root: Path) -> None:
    shutil.copytree(root / "real", root / "other")
    (root / "other/new.txt").write_text("new")
    (root / "through").unlink()
    (root / "through").symlink_to("other")


def add_a_file_behind_a_linked_folder(root: Path) -> None:
    with times_kept(root / "real", root / "real/below"):
        (root / "real/below/new.txt").write_text("new")


def put_a_file_in_place_of_a_link_to_a_folder(root: Path) -> None:
    shutil.rmtree(root / "elsewhere")
    (root / "elsewhere").write_text("now a file")


def put_a_folder_in_place_of_a_file(root: Path) -> None:
    with times_kept(root / "a"):
        (root / "a/1.txt").unlink()
        (root / "a/1.txt").mkdir()


CHANGES = [
    add_a_file,
    add_a_file_further_down,
    remove_a_file,
    unpack_an_archive,
    swap_a_folder,
    swap_the_package,
    make_a_folder_a_package,
    make_a_folder_on_the_way_to_a_file_a_package,
    give_a_dangling_link_its_target,
    take_a_link_its_target,
    lead_a_link_elsewhere,
    lead_a_link_to_a_folder_elsewhere,
    lead_a_linked_package_elsewhere,
    add_a_file_behind_a_linked_folder,
    put_a_file_in_place_of_a_link_to_a_folder,
    put_a_folder_in_place_of_a_file,
]


@pytest.mark.sampled
@pytest.mark.parametrize("with_a_source", [False, True], ids=["alone", "and a source changed"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_other_files_in_a_listed_folder_are_found(
    make_workspace: Callable[..., Any], change: Callable[[Path], None], with_a_source: bool
) -> None:
    workspace = make_workspace(FILES)
    for link, target in {
        "a/linked": "../v1",
        "a/dangling.txt": "../missing",
        "a/link.txt": "../outside",
        "a/folder.txt": "../elsewhere",
        "through": "real",
    }.items():
        (workspace.root / link).symlink_to(target)
    workspace.nothing_to_do(*TARGETS)
    change(workspace.root)
    if with_a_source:
        (workspace.root / "real/below/3.txt").write_text("three")
    assert not workspace.check(*TARGETS).nothing_to_do


def test_times_that_are_set_back_are_looked_into_once(make_workspace: Callable[..., Any]) -> None:
    """A folder with a new ctime and the same entries costs one more listing, but not in every build."""
    workspace = make_workspace(FILES)
    workspace.nothing_to_do("//a:found")
    workspace.settle()
    (workspace.root / "a/unmatched").write_text("")
    (workspace.root / "a/unmatched").unlink()
    workspace.settle()
    assert workspace.built("//a:found").nothing_to_do
    record = {path: path.read_bytes() for path in (workspace.root / "modelbuild-out/.modelbuild/snapshots").iterdir()}
    assert workspace.built("//a:found").nothing_to_do
    assert all(path.read_bytes() == data for path, data in record.items())


@pytest.mark.parametrize("target", ["../missing", "../missing folder/x"])
def test_a_link_that_leads_nowhere_at_first_is_found_later(make_workspace: Callable[..., Any], target: str) -> None:
    """Also if it was made after the folder was listed, when the build had nothing to do with it."""
    workspace = make_workspace(FILES)
    workspace.nothing_to_do("//a:found")
    (workspace.root / "a/later.txt").symlink_to(target)
    workspace.nothing_to_do("//a:found")
    path = workspace.root / "a" / target
    path.parent.mkdir(exist_ok=True)
    path.write_text("there")
    assert "later.txt" in workspace.check("//a:found", "--show-outputs=all").out
