"""Command lines that ended well, saved in the output tree so that the same line can be answered from its record."""

from __future__ import annotations

import os
import sys

from modelbuild import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import TypeAlias

    # The workspace's root, and what was given to save_command(): quiet, record, said, asked.
    SavedCommand: TypeAlias = tuple[str, bool, str, str, str]

_WORKSPACE_FILE = "MODELBUILD.toml"
_OUTPUT = "modelbuild-out"
_FOLDER = f"{_OUTPUT}/.modelbuild/commands"

# What decides, besides files and arguments, what a build is: where its cache and its configuration are.
_VARIABLES = ("MODELBUILD_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
_SUM = 4  # bytes of a checksum


def save_command(arguments: Sequence[str], record: Path, quiet: bool, said: str = "", asked: str = "") -> None:
    """Save a command line that ended well. Nothing is saved where the output tree cannot be written to.

    record  path of the build's record, which decides whether the same command line has anything to do
    quiet   print nothing when it has nothing to do
    said    what to print then in place of the record's targets
    asked   what to build when it has something to do (see build_request.Asked)
    """
    from binascii import crc32
    from contextlib import suppress

    from modelbuild.build.build_record import write_whole
    from modelbuild.store.files import make_folder

    where = _where(arguments)
    if where is None:
        return
    root, given = where
    file = _file(root, given)
    data = os.fsencode(f"{'quiet' if quiet else ''}\0{record}\0{said}\0{asked}")
    with suppress(OSError):
        make_folder(f"{root}/{_OUTPUT}", os.path.dirname(file))
        write_whole(file, _line(given) + crc32(data).to_bytes(_SUM) + data)


def _where(arguments: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the workspace's root, and everything that identifies the command line; None when it builds nothing."""
    try:
        folder = os.getcwd()
    except OSError:  # it is gone
        return None
    if len(arguments) > 2 and arguments[0] in ("-C", "--workspace"):
        folder = os.path.join(folder, arguments[1])
        arguments = arguments[2:]
    if not arguments or arguments[0] not in ("build", "test"):
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
    return os.fsencode("".join(f"{text}\0" for text in given) + "\n")


def read_command(arguments: Sequence[str]) -> SavedCommand | None:
    """Return what was saved of the same command line; None when nothing was."""
    from binascii import crc32

    from modelbuild.build.build_record import read_regular

    where = _where(arguments)
    if where is None:
        return None
    root, given = where
    whole = read_regular(_file(root, given))
    line = _line(given)
    data = whole[len(line) + _SUM :]
    if not whole.startswith(line) or not data or whole[len(line) : -len(data)] != crc32(data).to_bytes(_SUM):
        return None
    quiet, path, said, asked = os.fsdecode(data).split("\0")
    return root, quiet == "quiet", path, said, asked
