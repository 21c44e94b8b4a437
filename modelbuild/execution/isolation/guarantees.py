"""The guarantees of the sandbox on this machine, as text."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from modelbuild.execution.isolation import landlock, namespaces, seccomp


def guarantees(cache: Path) -> list[str]:
    """Return a line for each guarantee, beginning with `holds` or `does not hold`, for actions with folders in a
    cache's folder."""
    with tempfile.TemporaryDirectory(dir=cache if os.access(cache, os.W_OK) else None) as scratch:
        refusal = namespaces.refusal(os.path.realpath(scratch))
    return list(_lines(landlock.abi(), seccomp.available(), refusal))


def _lines(abi: int, filters: bool, refusal: str) -> Iterator[str]:
    """Yield the lines.

    abi       version of Landlock, 0 for none
    filters   whether the kernel has seccomp
    refusal   the reason why there are no views of the machine; '' if there are
    """
    landlocked = f"Landlock ABI {abi}" if abi else "no Landlock"
    filtered = "seccomp" if filters else f"no seccomp for {os.uname().machine}"
    unshared = f"no mount namespaces: {refusal}" if refusal else "mount namespaces"
    yield "holds: Python code opens no file that is not declared"
    yield _line("native code opens no file that is not declared", abi >= 3, landlocked, "it needs ABI 3, Linux 6.2")
    yield _line("of its rule package, native code reads the modules in its key only", abi > 0, landlocked)
    yield "holds: no process that an action starts outlives it"
    yield _line("an action signals no process of others", abi >= 6, landlocked, "it needs ABI 6, Linux 6.12")
    yield _line("an action without a network has none", filters, filtered)
    yield _line("an action makes no System V objects, message queues or kernel keys", filters, filtered)
    if refusal:
        yield _line("an action gets no shared memory", abi > 0, f"{landlocked}; {unshared}")
        yield _line("an action without network and GPUs gets no Unix sockets", filters, f"{filtered}; {unshared}")
    else:
        yield _line("an action's shared memory is its own", True, unshared)
        yield _line("an action without network and GPUs reaches no Unix sockets but its own", True, unshared)
    yield _line("an action without network and GPUs sees no names of other files", not refusal, unshared)
    yield from NEVER


NEVER = (
    "does not hold: an action sees nothing of other processes (/proc is not hidden, on no machine)",
    "does not hold: an action takes no more memory and processor time than it declares (nothing limits it)",
)


def _line(guarantee: str, holds: bool, by: str, needs: str = "") -> str:
    why = f"{by}; {needs}" if needs and not holds else by
    return f"{'holds' if holds else 'does not hold'}: {guarantee} ({why})"
