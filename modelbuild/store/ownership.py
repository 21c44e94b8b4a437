"""The mark of folders in which modelbuild removes files. Only a folder that was missing or empty gets it."""

from __future__ import annotations

import os
from pathlib import Path

from modelbuild.errors import EnvironmentProblem
from modelbuild.store.files import open_plain

MARK_FILE = "CACHEDIR.TAG"
MARK = b"Signature: 8a477f597d28d172789f06886806bc55\n# A cache of modelbuild; see https://bford.info/cachedir/\n"


def claim(folder: Path, write: bool = True) -> None:
    """Mark an existing folder, if it is empty; without `write`, only check it. Raises EnvironmentProblem, and writes
    nothing, if it has contents but not the mark. Raises OSError if the mark cannot be written."""
    for _ in range(2):  # meanwhile, another process may write the mark, and then other files
        found = _read_mark(folder)
        if found == MARK:
            return
        # A process that was killed may have left a part of the mark.
        if set(os.listdir(folder)) <= {MARK_FILE} and found is not None and MARK.startswith(found):
            if write:
                _write_mark(folder)
            return
    raise EnvironmentProblem(
        f"{folder} has contents, but no {MARK_FILE} of modelbuild; expected a missing or empty folder"
    )


def restore_mark(folder: Path) -> None:
    """Mark a folder again that this process claimed, if another program removed the mark: what this process wrote since
    would otherwise look like a user's. Raises OSError."""
    if _read_mark(folder) == b"" and os.path.isdir(folder):
        _write_mark(folder)


def _read_mark(folder: Path) -> bytes | None:
    """Return the contents of the file; empty if it is missing, None if it cannot be read."""
    try:
        with open_plain(str(folder / MARK_FILE)) as file:
            return file.readall()
    except FileNotFoundError:
        return b""
    except OSError:
        return None


def _write_mark(folder: Path) -> None:
    # A link would be followed to a file outside the folder.
    descriptor = os.open(folder / MARK_FILE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with open(descriptor, "wb") as file:
        file.write(MARK)
