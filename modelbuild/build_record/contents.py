"""The contents of the files that a build read in the workspace. A file with a new time and equal contents, as after a
switch of branches and back, is unchanged."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Mapping

from modelbuild.build_record.record import Record, Stamps
from modelbuild.store.digests import FileChanged, digest_file
from modelbuild.times import settled

# size, ctime_ns, inode of a file.
Stamp = tuple[int, int, int]


def read_contents(root: str, files: Mapping[str, Stamp | None], known: Mapping[str, str]) -> dict[str, str]:
    """Return the contents of the files below the root, by path as in `files`, which has their stamps; `known` has
    contents of some. Files that have changed since are left out."""
    inside = (path for path in files if not os.path.isabs(path) or path.startswith(f"{root}/"))
    found = {path: known[path] if path in known else _content(os.path.join(root, path), files[path]) for path in inside}
    return {path: content for path, content in found.items() if content}


def changed_contents(root: str, record: Record, known: Mapping[str, str], changed: Collection[str]) -> set[str]:
    """Return the files whose contents are not those in `known`. The record gets the new stamps of all others."""
    before = record.files
    stamps = list(zip(before.sizes, before.times, before.inodes, strict=True))
    differing = set(changed)
    for index, path in enumerate(before.paths):
        if path in differing and path in known:
            now = time.time_ns()
            stamp, content = _stamped(os.path.join(root, path))
            if content == known[path]:
                differing.discard(path)
                # A file that may change again without a new time is compared again by the next build.
                stamps[index] = stamp if settled(stamp[1], now) else stamps[index]
    record.files = Stamps(before.paths, *(list(column) for column in zip(*stamps, strict=True)))
    return differing


def _content(path: str, expected: Stamp | None) -> str:
    """Return the content of a file with this stamp; '' if it has another one."""
    stamp, content = _stamped(path)
    return content if stamp == expected else ""


def _stamped(path: str) -> tuple[Stamp, str]:
    """Return a file's stamp, and a text that is equal only for equal bytes and executable bits; '' for no file."""
    try:
        now = os.stat(path)
        if not stat.S_ISREG(now.st_mode):
            return (0, 0, 0), ""
        found = digest_file(path)
    except (OSError, FileChanged):
        return (0, 0, 0), ""
    return (now.st_size, now.st_ctime_ns, now.st_ino), content_text(found.hash, bool(now.st_mode & stat.S_IXUSR))


def content_text(digest: str, executable: bool) -> str:
    """Return the text for a file with this SHA-256."""
    return f"{digest}{'x' if executable else ''}"
