"""Glob patterns for files of a package: `*` and `?` inside a name, `**` for any folders between."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeAlias

from modelbuild.loading.package import PACKAGE_FILE
from modelbuild.loading.tree import SourceTree, join
from modelbuild.workspace.workspace import WORKSPACE_FILE

# The remaining parts of a pattern.
_Tail: TypeAlias = tuple[str, ...]

_ANY_FOLDERS = "**"
_OWN_FILES = (PACKAGE_FILE, WORKSPACE_FILE)


def parse_glob(pattern: str) -> tuple[str, ...]:
    """Return the parts of a pattern. Raises ValueError, with the expected form, for a malformed pattern."""
    parts = tuple(pattern.split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError("expected a pattern for paths inside the package, without '.', '..' or empty parts")
    if any(_ANY_FOLDERS in part and part != _ANY_FOLDERS for part in parts):
        raise ValueError("expected '**' alone between slashes")
    # Several `**` in a row match the same paths as one `**`, and matching would try them all.
    kept = tuple(part for part, before in zip(parts, ("", *parts), strict=False) if not part == before == _ANY_FOLDERS)
    return (*kept, "*") if parts[-1] == _ANY_FOLDERS else kept


def expand_glob(
    tree: SourceTree, package: str, include: Sequence[tuple[str, ...]], exclude: Sequence[tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the files of a package that match a pattern in `include` and none in `exclude`: paths below the root,
    sorted.

    A wildcard does not match a leading dot, nor BUILD.toml and MODELBUILD.toml. Other packages and workspaces below the
    package, Python environments, links to folders and the output tree are skipped.
    """
    found: list[str] = []
    waiting = [("", frozenset(include), frozenset(exclude))]
    while waiting:
        folder, wanted, unwanted = waiting.pop()
        listing = tree.list(join(package, folder))
        if folder and listing.is_boundary():
            continue
        for name in listing.files:
            if () in _step(wanted, name) and () not in _step(unwanted, name) and name not in _OWN_FILES:
                found.append(join(package, join(folder, name)))
        for name in listing.folders:
            rest = _step(wanted, name)
            if any(rest):
                waiting.append((join(folder, name), rest, _step(unwanted, name)))
    return tuple(sorted(found))


def _step(tails: Iterable[_Tail], name: str) -> frozenset[_Tail]:
    """Return the remaining parts of patterns after `name`; () is a pattern that has matched completely."""
    left: set[_Tail] = set()
    waiting = [tail for tail in tails if tail]
    for tail in waiting:
        if tail[0] != _ANY_FOLDERS:
            if _part(tail[0]).match(name):
                left.add(tail[1:])
            continue
        waiting.append(tail[1:])  # `**` may match no folder; it is never the last part, see parse_glob
        if not name.startswith("."):
            left.add(tail)
    return frozenset(left)


@cache
def _part(pattern: str) -> re.Pattern[str]:
    begin, *rest = pattern.split("*")
    wild = _plain(begin)
    if rest:
        # The text between stars is matched at its first occurrence only: trying later occurrences takes exponential
        # time.
        wild += "".join(f"(?>.*?{_plain(part)})" for part in rest[:-1] if part) + f".*{_plain(rest[-1])}"
    visible = r"(?!\.)" if pattern[0] in "*?" else ""
    return re.compile(f"{visible}{wild}\\Z", re.DOTALL)


def _plain(text: str) -> str:
    return "".join("." if char == "?" else re.escape(char) for char in text)
