"""A build with nothing to do: a repeated command line is answered from its record, if nothing changed.

Command lines of successful builds are saved in the output tree. Imports little beyond Python's own startup, and no
click.
"""

from __future__ import annotations

import os
import sys
import time

from modelbuild import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import TypeAlias

    # The workspace's root, and the arguments of save_command(): show, record.
    SavedCommand: TypeAlias = tuple[str, str, str]

_WORKSPACE_FILE = "MODELBUILD.toml"
_OUTPUT = "modelbuild-out"
_FOLDER = f"{_OUTPUT}/.modelbuild/commands"

# Environment variables that affect a build: locations of its cache and its configuration.
_VARIABLES = ("MODELBUILD_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
_SUM = 4  # bytes of a checksum

# Stands for printing nothing, instead of a value of --show-outputs.
QUIET = "quiet"


def run_null_build(arguments: Sequence[str]) -> int | None:
    """Return the exit code of a command line whose last build is up to date; None for any other command line."""
    started = time.monotonic()
    saved = _saved(arguments)
    if saved is None:
        return None

    from modelbuild.build_record.record import up_to_date

    root, show, path = saved
    record = up_to_date(path, root)
    if record is None:
        from modelbuild.build_record.contents import only_touched

        record = only_touched(path, root)
    if record is None:
        return None
    if show != QUIET:
        from modelbuild.report.text import nothing_to_do, target_lines, write

        last = nothing_to_do(len(record.targets), record.actions, time.monotonic() - started)
        write(sys.stdout, "\n".join((*target_lines([t[:3] for t in record.targets], show), last)))
    return 0


def save_command(arguments: Sequence[str], record: Path, show: str) -> None:
    """Save a successful command line. Nothing is saved if the output tree is read-only.

    record   path of the build's record, which shows whether anything changed
    show     the output if nothing changed: QUIET, or the value of --show-outputs
    """
    from binascii import crc32
    from contextlib import suppress

    from modelbuild.build_record.record import write_whole
    from modelbuild.store.files import make_folder

    where = _where(arguments)
    if where is None:
        return
    root, given = where
    file = _file(root, given)
    data = os.fsencode(f"{show}\0{record}")
    with suppress(OSError):
        make_folder(f"{root}/{_OUTPUT}", os.path.dirname(file))
        write_whole(file, _line(given) + crc32(data).to_bytes(_SUM) + data)


def _where(arguments: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the workspace's root, and everything that identifies the command line; None for other commands."""
    try:
        folder = os.getcwd()
    except OSError:  # it was removed
        return None
    if len(arguments) > 2 and arguments[0] in ("-C", "--workspace"):
        folder = os.path.join(folder, arguments[1])
        arguments = arguments[2:]
    if not arguments or arguments[0] != "build":
        return None
    root = folder = os.path.abspath(folder)
    while not os.path.isfile(f"{root}/{_WORKSPACE_FILE}"):
        above = os.path.dirname(root)
        if above == root:
            return None
        root = above
    variables = [os.environ.get(name, "") for name in _VARIABLES]
    python = [__version__, sys.version, sys.prefix, *sys.path]
    return root, [*python, *variables, os.path.realpath(root), os.path.realpath(folder), "", *arguments]


def _file(root: str, given: Sequence[str]) -> str:
    from binascii import crc32

    return f"{root}/{_FOLDER}/{crc32(_line(given)):08x}"


def _line(given: Sequence[str]) -> bytes:
    return os.fsencode("".join(f"{argument}\0" for argument in given) + "\n")


def _saved(arguments: Sequence[str]) -> SavedCommand | None:
    """Return the saved data of the same command line, or None."""
    from binascii import crc32

    from modelbuild.build_record.record import read_regular

    where = _where(arguments)
    if where is None:
        return None
    root, given = where
    whole = read_regular(_file(root, given))
    line = _line(given)
    data = whole[len(line) + _SUM :]
    if not whole.startswith(line) or not data or whole[len(line) : -len(data)] != crc32(data).to_bytes(_SUM):
        return None
    show, path = os.fsdecode(data).split("\0")
    return root, show, path
