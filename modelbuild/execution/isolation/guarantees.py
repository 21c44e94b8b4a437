"""The guarantees of the sandbox on this machine, as text."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modelbuild.execution.isolation import landlock, namespaces, seccomp


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A guarantee of the sandbox.

    why       the features of the kernel that decide it
    possible  false if it holds on no machine
    """

    text: str
    holds: bool
    why: str = ""
    possible: bool = True

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"{'holds' if self.holds else 'does not hold'}: {self.text}{why}"


def guarantees(cache: Path) -> list[Guarantee]:
    """Return the guarantees for actions with folders in a cache's folder."""
    with tempfile.TemporaryDirectory(dir=cache if os.access(cache, os.W_OK) else None) as scratch:
        refusal = namespaces.refusal(os.path.realpath(scratch))
    return list(_guarantees(landlock.abi(), seccomp.available(), refusal))


def _guarantees(abi: int, filters: bool, refusal: str) -> Iterator[Guarantee]:
    """Yield the guarantees.

    abi       version of Landlock, 0 for none
    filters   whether the kernel has seccomp
    refusal   the reason why there are no views of the machine; '' if there are
    """
    landlocked = f"Landlock ABI {abi}" if abi else "no Landlock"
    filtered = "seccomp" if filters else f"no seccomp for {os.uname().machine}"
    unshared = f"no mount namespaces: {refusal}" if refusal else "mount namespaces"
    yield Guarantee("Python code opens no file that is not declared", True)
    yield _decided("native code opens no file that is not declared", abi >= 3, landlocked, "it needs ABI 3, Linux 6.2")
    yield _decided("of its rule package, native code reads the modules in its key only", abi > 0, landlocked)
    yield Guarantee("no process that an action starts outlives it", True)
    yield _decided("an action signals no process of others", abi >= 6, landlocked, "it needs ABI 6, Linux 6.12")
    yield _decided("an action without a network has none", filters, filtered)
    yield _decided("an action makes no System V objects, message queues or kernel keys", filters, filtered)
    if refusal:
        yield _decided("an action gets no shared memory", abi > 0, f"{landlocked}; {unshared}")
        yield _decided("an action without network and GPUs gets no Unix sockets", filters, f"{filtered}; {unshared}")
    else:
        yield _decided("an action's shared memory is its own", True, unshared)
        yield _decided("an action without network and GPUs reaches no Unix sockets but its own", True, unshared)
    yield _decided("an action without network and GPUs sees no names of other files", not refusal, unshared)
    hidden = "an action sees nothing of other processes"
    yield Guarantee(hidden, False, "/proc is not hidden, on no machine", possible=False)
    limited = "an action takes no more memory and processor time than it declares"
    yield Guarantee(limited, False, "nothing limits it", possible=False)


def _decided(text: str, holds: bool, by: str, needs: str = "") -> Guarantee:
    return Guarantee(text, holds, f"{by}; {needs}" if needs and not holds else by)
