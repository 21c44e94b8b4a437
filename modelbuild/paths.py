"""Check paths from rules, steps, caches and workers: they must be relative and stay inside their folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from modelbuild.lines import is_line

# Names that the engine uses at the top of an action's folder, where workspace files are too.
RESERVED = HOME, INPUTS, LOCAL, OUTPUTS, STDERR, STDOUT = (
    ".home",
    ".inputs",
    ".local",
    ".outputs",
    ".stderr",
    ".stdout",
)

# Maximum bytes of a name on Linux's file systems.
MAX_NAME = 255

# Maximum bytes of a relative path. Linux allows 4096 bytes together with the folder's path.
MAX_PATH = 2048

EXPECTED = (
    f"expected names of at most {MAX_NAME} bytes joined by '/', in UTF-8 without control characters, none of them '',"
    " '.' or '..'"
)


class PathError(ValueError):
    """A path that does not fit its place. The message is one line."""


def check_path(path: object) -> str:
    """Return the path unchanged if it is relative, with '/' separators, and stays in its folder. Raises PathError."""
    if not isinstance(path, str):
        raise PathError(f"{path!r} is not text")
    parts = path.split("/")
    if not is_line(path) or any(part in ("", ".", "..") for part in parts) or not _fits(path, parts):
        raise PathError(f"{path!r} is not a path within a folder; {EXPECTED}")
    if len(path) > MAX_PATH or (not path.isascii() and len(path.encode()) > MAX_PATH):
        raise PathError(f"{path[:60]!r}... is not a path that fits; expected at most {MAX_PATH} bytes")
    return path


def check_name(name: object) -> str:
    """Return the name unchanged if it is the name of one file or folder. Raises PathError."""
    if "/" in check_path(name):
        raise PathError(f"{name!r} is a path; expected one name, without '/'")
    return str(name)


def check_apart(paths: Iterable[str]) -> None:
    """Raise PathError if a path occurs twice, or is below another path."""
    found: set[str] = set()
    for path in paths:
        if path in found:
            raise PathError(f"{path!r} occurs twice; expected a different path for each")
        found.add(path)
    for path in found:
        for parent in parents(path):
            if parent in found:
                raise PathError(f"{path!r} is below {parent!r}; expected separate paths")


def parents(path: str) -> Iterator[str]:
    """Yield the folders that contain a path, the innermost first."""
    while path := path.rpartition("/")[0]:
        yield path


def _fits(path: str, parts: list[str]) -> bool:
    if path.isascii():
        return len(path) <= MAX_NAME or max(map(len, parts)) <= MAX_NAME
    return all(len(part.encode()) <= MAX_NAME for part in parts)
