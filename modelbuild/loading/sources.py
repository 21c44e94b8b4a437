"""Find a target's source files, by path or by pattern, in the target's own package."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from modelbuild.errors import LoadingError, did_you_mean
from modelbuild.lines import EXPECTED, is_line
from modelbuild.loading.glob import expand_glob, parse_glob
from modelbuild.loading.package import PACKAGE_FILE, Package
from modelbuild.loading.tree import SourceTree, join
from modelbuild.workspace.toml_document import Where, show
from modelbuild.workspace.workspace import WORKSPACE_FILE

# Most files that are compared for a `did you mean`.
_MOST = 5_000


def find_source(tree: SourceTree, package: Package, text: str, at: Where) -> str:
    """Return the path below the root of a file named relative to its package. Raises LoadingError, located at the
    reference, if there is no such regular file, or if it is outside the package."""
    parts = text.split("/")
    if any(part in ("", ".", "..") for part in parts):
        expected = f"expected a path inside //{package.name}, without '.', '..' or empty parts"
        raise LoadingError(f"{show(text)}: {expected}; use a label for a file of another package", at())
    if not is_line(text):
        raise LoadingError(f"{show(text)}: {EXPECTED}", at())
    folder = package.name
    for part in parts[:-1]:
        folder = join(folder, part)
        if tree.is_marked(folder, PACKAGE_FILE):
            raise LoadingError(f"{show(text)} is in package //{folder}; expected a label of that package", at())
        if tree.is_marked(folder, WORKSPACE_FILE):
            raise LoadingError(f"{show(text)} is in another workspace, {folder}", at())
    path = join(package.name, text)
    if tree.is_file(path):
        return path
    if tree.is_folder(path):
        raise LoadingError(f'{show(text)} is a folder; expected a file, or {{ glob = ["{text}/**"] }}', at())
    raise LoadingError(f"no file {show(text)} in //{package.name}{_nearest(tree, package, text)}", at())


def _nearest(tree: SourceTree, package: Package, text: str) -> str:
    files = list(itertools.islice(tree.package_files(package.name), _MOST))
    name = text.rpartition("/")[2]
    for file in files:
        if file.rpartition("/")[2] == name:
            return f"; did you mean '{file}'?"
    return did_you_mean(text, [*files, *(f":{name}" for name in package.targets)])


def find_glob(
    tree: SourceTree,
    package: Package,
    include: Sequence[str],
    exclude: Sequence[str],
    allow_empty: bool,
    at: Where,
) -> tuple[str, ...]:
    """Return the paths below the root, sorted, of the files that match patterns (see `expand_glob`).

    Raises LoadingError, located at the reference, for a malformed pattern, and when no file matches unless
    `allow_empty`.
    """
    parsed: list[list[tuple[str, ...]]] = []
    for patterns in (include, exclude):
        try:
            parsed.append([parse_glob(pattern) for pattern in patterns])
        except ValueError as error:
            wrong = ", ".join(map(show, patterns))
            raise LoadingError(f"{error}, got {wrong}", at()) from None
    found = expand_glob(tree, package.name, *parsed)
    if not found and not allow_empty:
        patterns = ", ".join(map(show, include))
        raise LoadingError(f"no file of //{package.name} matches {patterns}; allow_empty = true permits that", at())
    for path in found:
        if not is_line(path):
            raise LoadingError(f"file name {path!r}: {EXPECTED}", at())
    return found
