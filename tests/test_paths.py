"""Paths that stay within a folder."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modelbuild.paths import PathError, check_apart, check_name, check_path


@pytest.mark.parametrize("path", ["a", "a/b", "a.b/..c", "...", " ", "é", "a" * 255, "a" * 255 + "/b", "é" * 127])
def test_paths_within_a_folder(path: str) -> None:
    assert check_path(path) == path


BAD = ["", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "./a", "a/./b", "a" * 256, "é" * 128, "a/" * 1024 + "a"]
BAD += ["a\0b", "a\nb", "a\x1bb", "a\u2028b", "\udcff"]


@pytest.mark.parametrize("path", [*BAD, None, 1, b"a"])
def test_paths_that_leave_it_or_are_none(path: object) -> None:
    with pytest.raises(PathError, match="is not"):
        check_path(path)


@pytest.mark.parametrize("name", [*BAD, "a/b"])
def test_invalid_names(name: str) -> None:
    with pytest.raises(PathError, match=r"is (not )?a path"):
        check_name(name)


@pytest.mark.parametrize(
    ("paths", "apart"), [((), True), (("a", "a-b", "b/a", "b/c"), True), (("b/a/c", "b/a"), False)]
)
def test_paths_beside_each_other(paths: Sequence[str], apart: bool) -> None:
    if apart:
        check_apart(paths)
    else:
        with pytest.raises(PathError, match="'b/a/c' is below 'b/a'"):
            check_apart(paths)


def test_a_path_that_is_there_twice() -> None:
    with pytest.raises(PathError, match="'a' occurs twice"):
        check_apart(["a", "b", "a"])
