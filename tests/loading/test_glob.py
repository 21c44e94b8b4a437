"""Globs match like a plain implementation of their rules, and list no folder that cannot contain a match."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelbuild.loading.glob import expand_glob, parse_glob
from modelbuild.loading.tree import SourceTree

NAMES = ["a", "b", "ab", ".a", "a.b", "[a]"]
PARTS = ["a", "b", "*", "?", "a*", "*b", "**", ".*", "a.b", "[a]", "?b", "**", "[*"]


def plainly(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return whether a path matches, by the definition of each wildcard."""

    @cache
    def part(wild: str, name: str) -> bool:
        if not wild or not name:
            return wild.strip("*") == "" and not name
        if wild[0] == "*":
            return part(wild[1:], name) or part(wild, name[1:])
        return wild[0] in ("?", name[0]) and part(wild[1:], name[1:])

    if not pattern or not path:
        return pattern == path
    head, name = pattern[0], path[0]
    if head == "**":
        if len(pattern) == 1:
            return not any(p.startswith(".") for p in path)
        return plainly(pattern[1:], path) or (not name.startswith(".") and plainly(pattern, path[1:]))
    return not (name.startswith(".") and head[0] in "*?") and part(head, name) and plainly(pattern[1:], path[1:])


PATTERNS = st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map(tuple), max_size=3)
PATHS = st.sets(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple), max_size=8)


@given(paths=PATHS, include=PATTERNS, exclude=PATTERNS)
def test_glob_matches(
    paths: set[tuple[str, ...]], include: list[tuple[str, ...]], exclude: list[tuple[str, ...]]
) -> None:
    files = {p for p in paths if not any(other[: len(p)] == p for other in paths if other != p)}
    with TemporaryDirectory() as folder:
        for path in files:
            target = Path(folder, "p", *path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        Path(folder, "p").mkdir(exist_ok=True)
        found = expand_glob(
            SourceTree(Path(folder)),
            "p",
            [parse_glob("/".join(p)) for p in include],
            [parse_glob("/".join(p)) for p in exclude],
        )
    wanted = {
        "/".join(("p", *path))
        for path in files
        if any(plainly(p, path) for p in include) and not any(plainly(p, path) for p in exclude)
    }
    assert list(found) == sorted(wanted)


@pytest.mark.parametrize(
    ("pattern", "listed"),
    [
        ("*.py", {""}),
        ("a/*.py", {"", "a"}),
        ("a/b/x.py", {"", "a", "a/b"}),
        ("*/b/*", {"", "a", "c", "a/b"}),
        ("a/**", {"", "a", "a/b", "a/b/d"}),
        ("**/d/*", {"", "a", "c", "a/b", "a/b/d"}),
    ],
)
def test_only_folders_that_can_hold_a_match_are_listed(tmp_path: Path, pattern: str, listed: set[str]) -> None:
    for folder in ("a/b/d", "c", ".git/x"):
        (tmp_path / folder).mkdir(parents=True)
    tree = SourceTree(tmp_path)
    expand_glob(tree, "", [parse_glob(pattern)], [])
    assert set(tree.folders) == listed


def test_build_files_are_never_matched(tmp_path: Path) -> None:
    for name in ("BUILD.toml", "MODELBUILD.toml", "x.toml"):
        (tmp_path / name).touch()
    assert expand_glob(SourceTree(tmp_path), "", [parse_glob("*"), parse_glob("BUILD.toml")], []) == ("x.toml",)
