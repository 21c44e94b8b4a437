"""The null path: answers a command line from its record if its last build is up to date.

Imports little beyond Python's own startup, and no click. Other cases are left to the commands.
"""

from __future__ import annotations

import os
import sys
import time

from modelbuild import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def run_quickly(arguments: Sequence[str]) -> int | None:
    """Return the exit code of a command line that can be answered quickly; None for any other."""
    started = time.monotonic()
    quick = _quick(arguments)
    if quick is not None:
        sys.stdout.write(quick)
        return 0

    from modelbuild.cli.quick.saved_commands import QUIET, read_command

    saved = read_command(arguments)
    if saved is None:
        return None

    from modelbuild.build_record.record import up_to_date

    root, show, path = saved
    record = up_to_date(path, root)
    if record is None:
        return None
    if show != QUIET:
        from modelbuild.report.text import nothing_to_do, target_lines, write

        last = nothing_to_do(len(record.targets), record.actions, time.monotonic() - started)
        write(sys.stdout, "\n".join((*target_lines([t[:3] for t in record.targets], show), last)))
    return 0


def _quick(arguments: Sequence[str]) -> str | None:
    """Return the output of a command line that needs no workspace; None for any other."""
    if "_MODELBUILD_COMPLETE" in os.environ:
        from modelbuild.cli.quick.complete import complete

        asked = (os.environ.get(name, "") for name in ("_MODELBUILD_COMPLETE", "COMP_WORDS", "COMP_CWORD"))
        return complete(*asked)
    if list(arguments) == ["--version"]:
        return f"modelbuild {__version__}\n"
    if list(arguments) in (["--help"], ["-h"]):
        with open(os.path.join(os.path.dirname(os.path.dirname(__file__)), "help.txt"), encoding="utf-8") as file:
            return file.read()
    return None
