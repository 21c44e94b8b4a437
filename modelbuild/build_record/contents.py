"""The contents of the files that a build read in the workspace. A file with a new time and equal contents, as after a
switch of branches and back, is unchanged.

A build after touched files runs this module, so it imports little.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time

from modelbuild.build_record.reads_file import read_columns
from modelbuild.build_record.record import Record, Stamps, keep_times, read_record
from modelbuild.times import settled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# size, ctime_ns, inode of a file.
Stamp = tuple[int, int, int]


def only_touched(path: str, root: str) -> Record | None:
    """Return the record at `path` if files have new times and the contents of before; None after any other change."""
    record = read_record(path)
    changes = record.changes(root) if record is not None else None
    if record is None or changes is None:
        return None
    touched, outputs = changes
    columns = read_columns(path, record.token) if touched and not outputs else None
    if columns is None or changed_contents(root, record, columns[-1], touched):
        return None
    record.surroundings.moved = True
    keep_times(path, record)
    return record


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
            stamp, content = _stamped(os.path.join(root, path), before.sizes[index])
            if content == known[path]:
                differing.discard(path)
                # A file that may change again without a new time is compared again by the next build.
                stamps[index] = stamp if settled(stamp[1], now) else stamps[index]
    record.files = Stamps(before.paths, *(list(column) for column in zip(*stamps, strict=True)))
    return differing


def _content(path: str, expected: Stamp | None) -> str:
    """Return the content of a file with this stamp; '' if it has another one."""
    stamp, content = ((0, 0, 0), "") if expected is None else _stamped(path, expected[0])
    return content if stamp == expected else ""


def _stamped(path: str, size: int) -> tuple[Stamp, str]:
    """Return a file's stamp, and a text that is equal only for equal bytes and executable bits; '' for no file, for one
    of another size, and for one that is written to meanwhile. As digests.digest_file, whose imports would take longer
    than the rest."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            return (0, 0, 0), ""
        with open(path, "rb", 0) as file:
            now = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(file.fileno())
    except OSError:
        return (0, 0, 0), ""
    stamp = (now.st_size, now.st_ctime_ns, now.st_ino)
    if stamp != (after.st_size, after.st_ctime_ns, after.st_ino):
        return (0, 0, 0), ""
    return stamp, content_text(digest, bool(now.st_mode & stat.S_IXUSR))


def content_text(digest: str, executable: bool) -> str:
    """Return the text for a file with this SHA-256."""
    return f"{digest}{'x' if executable else ''}"
