"""Files named by path or by pattern are the package's own; other errors name the correct spelling."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modelbuild.errors import LoadingError, Location
from modelbuild.loading.loader import Loader

from .conftest import MakeLoader

AT = Location("p/BUILD.toml", 3, 4)


@pytest.fixture
def loader(make_loader: MakeLoader, tmp_path: Path) -> Loader:
    files = [
        "detector.py",
        "data/a.bin",
        "data/b.bin",
        "data/deep/c.bin",
        "sub/x.py",
        "sub/lib/y.py",
        "alien/z.py",
        ".hid",
    ]
    made = make_loader(
        {
            "p/BUILD.toml": "[[filegroup]]\nname = 'weights'\n",
            "p/sub/BUILD.toml": "",
            "p/alien/MODELBUILD.toml": "",
            **{f"p/{file}": "" for file in files},
        }
    )
    (tmp_path / "p/link.bin").symlink_to(tmp_path / "p/data/a.bin")
    (tmp_path / "p/broken.bin").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "p/fifo")
    return made


@pytest.mark.parametrize("path", ["detector.py", "data/a.bin", "data/deep/c.bin", "link.bin", ".hid", "BUILD.toml"])
def test_a_file_of_the_package(loader: Loader, path: str) -> None:
    assert loader.source("p", path, lambda: AT) == f"p/{path}"


def test_a_file_of_the_package_at_the_root(make_loader: MakeLoader) -> None:
    loader = make_loader({"BUILD.toml": "", "a/b.txt": ""})
    assert loader.source("", "a/b.txt", lambda: AT) == "a/b.txt"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("detectr.py", "no file 'detectr.py' in //p; did you mean 'detector.py'?"),
        ("data/a.bni", "no file 'data/a.bni' in //p; did you mean 'data/a.bin'?"),
        ("c.bin", "no file 'c.bin' in //p; did you mean 'data/deep/c.bin'?"),
        ("weights", "no file 'weights' in //p; did you mean ':weights'?"),
        ("qqqqq", "no file 'qqqqq' in //p"),
        ("broken.bin", "no file 'broken.bin' in //p"),
        ("fifo", "no file 'fifo' in //p"),
        ("a\0b", "'a\\x00b': expected UTF-8 without control characters and line breaks"),
        ("a\nb", "'a\\nb': expected UTF-8 without control characters and line breaks"),
        ("data", "'data' is a folder; expected a file, or { glob = [\"data/**\"] }"),
        ("sub", "'sub' is a folder; expected a file, or { glob = [\"sub/**\"] }"),
        ("sub/x.py", "'sub/x.py' is in package //p/sub; expected a label of that package"),
        ("sub/lib/y.py", "'sub/lib/y.py' is in package //p/sub; expected a label of that package"),
        ("alien/z.py", "'alien/z.py' is in another workspace, p/alien"),
    ],
)
def test_no_such_file(loader: Loader, path: str, message: str) -> None:
    with pytest.raises(LoadingError) as caught:
        loader.source("p", path, lambda: AT)
    assert str(caught.value) == f"p/BUILD.toml:3:4: {message}"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "data/../detector.py", "./detector.py", "data//a.bin", "data/", ""]
)
def test_a_path_that_is_not_plainly_inside_the_package(loader: Loader, path: str) -> None:
    with pytest.raises(LoadingError) as caught:
        loader.source("p", path, lambda: AT)
    expected = "expected a path inside //p, without '.', '..' or empty parts"
    assert str(caught.value) == f"p/BUILD.toml:3:4: {path!r}: {expected}; use a label for a file of another package"


def glob(loader: Loader, *include: str, exclude: tuple[str, ...] = (), allow_empty: bool = False) -> tuple[str, ...]:
    return loader.glob("p", include, exclude, allow_empty, lambda: AT)


def test_a_pattern_matches_the_packages_own_files(loader: Loader) -> None:
    assert glob(loader, "**") == ("p/data/a.bin", "p/data/b.bin", "p/data/deep/c.bin", "p/detector.py", "p/link.bin")
    assert glob(loader, "**/*.bin", exclude=("data/?.bin",)) == ("p/data/deep/c.bin", "p/link.bin")
    assert glob(loader, "*.py", "data/*", "*.py") == ("p/data/a.bin", "p/data/b.bin", "p/detector.py")
    assert glob(loader, ".h*") == ("p/.hid",)
    assert glob(loader, "sub/**", allow_empty=True) == ()


@pytest.mark.parametrize(
    ("include", "exclude", "message"),
    [
        (["*.pyy", "x/**"], [], "no file of //p matches '*.pyy', 'x/**'; allow_empty = true permits that"),
        (["*.py"], ["**"], "no file of //p matches '*.py'; allow_empty = true permits that"),
        (["../*"], [], "expected a pattern for paths inside the package, without '.', '..' or empty parts, got '../*'"),
        (["*"], ["/a"], "expected a pattern for paths inside the package, without '.', '..' or empty parts, got '/a'"),
        ([""], [], "expected a pattern for paths inside the package, without '.', '..' or empty parts, got ''"),
        (["a**/b"], [], "expected '**' alone between slashes, got 'a**/b'"),
    ],
)
def test_wrong_patterns(loader: Loader, include: list[str], exclude: list[str], message: str) -> None:
    with pytest.raises(LoadingError) as caught:
        loader.glob("p", include, exclude, False, lambda: AT)
    assert str(caught.value) == f"p/BUILD.toml:3:4: {message}"


def test_a_matched_name_that_is_not_utf8(loader: Loader, tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/p/data/\xff", os.O_CREAT))
    assert glob(loader, "data/*.bin") == ("p/data/a.bin", "p/data/b.bin")
    with pytest.raises(LoadingError, match=r"file name 'p/data/\\udcff': expected UTF-8"):
        glob(loader, "data/*")
