"""A full disk: each file that the user asks for is one line and exit code 36, and an older one stays."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

FULL = "error: /dev/full: No space left on device\n"
OPTIONS = {
    "--report": "r.html",
    "--profile": "p.json",
    "--junit": "j.xml",
    "--build-event-json": "e.json",
}


@pytest.fixture
def built(workspace: Any, example_rules: dict[str, str]) -> Any:
    """Return a workspace with one built target and a document about it."""
    build = '[[checksums]]\nname = "sums"\nsrcs = ["one.txt"]\n'
    workspace.write({**example_rules, "a/BUILD.toml": build, "a/one.txt": "1\n"})
    assert workspace.run("build", "//a:sums").code == 0
    return workspace


@pytest.fixture
def page_on_full_disk(tmp_path: Path) -> Path:
    """Return a link with the ending of a page, to a file that is always full."""
    (tmp_path / "full.html").symlink_to("/dev/full")
    return tmp_path / "full.html"


@pytest.mark.parametrize("option", ["--profile", "--junit", "--build-event-json", "--summary"])
@pytest.mark.parametrize("command", ["build", "test"])
def test_a_file_of_a_build(built: Any, option: str, command: str) -> None:
    built.add("a/BUILD.toml", '[[py_test]]\nname = "t"\nsrcs = ["test_t.py"]\n')
    built.write({"a/test_t.py": "def test_t(): pass\n"})
    ended = built.run(command, "//a:all", option, "/dev/full")
    assert ended.code == 36
    assert ended.err.endswith(FULL)
    assert ended.err.count("error:") == 1


def test_pages(built: Any, page_on_full_disk: Path) -> None:
    ended = built.run("build", "//a:sums", "--report", str(page_on_full_disk))
    assert (ended.code, ended.err) == (36, f"error: {page_on_full_disk}: No space left on device\n")


def test_a_failed_build_is_reported_beside_the_file(built: Any) -> None:
    ended = built.run("build", "//a:none", "--junit", "/dev/full")
    assert (ended.code, ended.err) == (2, f"{FULL}error: no target 'none' in //a\n")


def test_documents(built: Any) -> None:
    for command in (["attest", "//a:sums", "-o"], ["explain", "//a:sums", "--dump"], ["ci", "--measures"]):
        ended = built.run(*command, "/dev/full")
        assert (ended.code, ended.err[-len(FULL) :]) == (36, FULL), command


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a file system of 64 KiB, filled up except for files of the test."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("not run: mounting a file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_older_files_stay(built: Any, small_disk: Path) -> None:
    for name in OPTIONS.values():
        (small_disk / name).write_text("old")
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    before = {path.name: path.read_bytes() for path in small_disk.iterdir()}
    for option, name in OPTIONS.items():
        ended = built.run("build", "//a:sums", option, str(small_disk / name))
        assert (ended.code, ended.err) == (36, f"error: {small_disk / name}: No space left on device\n"), option
        assert {path.name: path.read_bytes() for path in small_disk.iterdir()} == before
    filler.unlink()
    for option, name in OPTIONS.items():
        if option != "--report":  # a page is larger than this disk
            assert built.run("build", "//a:sums", option, str(small_disk / name)).code == 0
            assert (small_disk / name).read_text() != "old"
