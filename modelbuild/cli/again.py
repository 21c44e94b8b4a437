"""The same command line again: when nothing has changed since it last built or tested something, say so and be done.

The null path: this imports little beyond what Python has imported at its start, no click among it. When something has
changed, a build knows what it is asked for without click; whatever is not plainly the same is left to the commands.
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

_WORKSPACE_FILE = "MODELBUILD.toml"
_OUTPUT = "modelbuild-out"
_FOLDER = f"{_OUTPUT}/.modelbuild/commands"

# What decides, besides files and arguments, what a build is: where its cache and its configuration are.
_VARIABLES = ("MODELBUILD_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
_SUM = 4  # bytes of a checksum


def again(arguments: Sequence[str]) -> int | None:
    """Do what the command line asks for if that is quickly done: the exit code. None: not so."""
    started = time.monotonic()
    quick = _quick(arguments)
    if quick is not None:
        sys.stdout.write(quick)
        return 0
    where = _where(arguments)
    if where is None:
        return None
    root, given = where
    remembered = _read(_file(root, given), given)
    if remembered is None:
        return None

    from modelbuild.building.record import up_to_date

    quiet, path, said, asked = remembered
    record = up_to_date(path, root)
    if record is None:
        if not asked:
            return None
        from modelbuild.cli.building import build_again

        return build_again(asked, arguments)
    if not quiet:
        from modelbuild.report.text import nothing_to_do, target_lines, write

        last = nothing_to_do(len(record.targets), record.actions, time.monotonic() - started)
        write(sys.stdout, "\n".join((*([said] if said else target_lines(record.targets)), last)))
    return 0


def _quick(arguments: Sequence[str]) -> str | None:
    """What there is to print for what needs no workspace."""
    if "_MODELBUILD_COMPLETE" in os.environ:
        from modelbuild.cli.complete import complete

        asked = (os.environ.get(name, "") for name in ("_MODELBUILD_COMPLETE", "COMP_WORDS", "COMP_CWORD"))
        return complete(*asked)
    if list(arguments) == ["--version"]:
        return f"modelbuild {__version__}\n"
    if list(arguments) in (["--help"], ["-h"]):
        with open(os.path.join(os.path.dirname(__file__), "help.txt"), encoding="utf-8") as file:
            return file.read()
    return None


def remember(arguments: Sequence[str], record: Path, quiet: bool, said: str = "", asked: str = "") -> None:
    """Have the next command line of these arguments look at a record first, and say `said` in place of the record's
    targets; or, when it does not hold, build what is `asked` for. Nothing is kept where the output tree cannot be
    written to."""
    from binascii import crc32
    from contextlib import suppress

    from modelbuild.building.record import write_whole
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
    """The workspace's root, and all that makes the command line what it is. None when it builds nothing."""
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


def _read(file: str, given: Sequence[str]) -> tuple[bool, str, str, str] | None:
    """Whether nothing is to be said, the path of the record, what to say in place of its targets, and what is asked
    for. None when another command line is remembered there."""
    from binascii import crc32

    from modelbuild.building.record import read_regular

    whole = read_regular(file)
    line = _line(given)
    data = whole[len(line) + _SUM :]
    if not whole.startswith(line) or not data or whole[len(line) : -len(data)] != crc32(data).to_bytes(_SUM):
        return None
    quiet, path, said, asked = os.fsdecode(data).split("\0")
    return quiet == "quiet", path, said, asked
