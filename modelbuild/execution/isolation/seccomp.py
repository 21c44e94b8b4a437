"""seccomp: make the kernel refuse some system calls of a process and its children.

Available without privileges since Linux 3.5. A filter sees numbers but not memory behind pointers, so it can refuse a
family of sockets, but not an address. The program is classic BPF: see
https://docs.kernel.org/userspace-api/seccomp_filter.html.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from modelbuild.execution.isolation.system_calls import PR_SET_NO_NEW_PRIVS, call, prctl

_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
# Without this flag, kernels before 5.16 slow the process down with mitigations of speculative execution.
_SPEC_ALLOW = 1 << 2

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


@dataclass(frozen=True)
class _Machine:
    """`architecture` as in the kernel's audit.h, and numbers of system calls. `shared` are the calls that make or use
    System V and POSIX objects: shm*, sem*, msg*, mq_open, mq_unlink. `around` are ways to sockets that no filter sees
    (io_uring_setup), and to keys of the user's other processes (add_key, request_key, keyctl)."""

    architecture: int
    seccomp: int
    socket: int
    shared: tuple[int, ...]
    around: tuple[int, ...]


_MACHINES = {
    "x86_64": _Machine(
        architecture=0xC000003E,
        seccomp=317,
        socket=41,
        shared=(29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241),
        around=(425, 248, 249, 250),
    ),
    "aarch64": _Machine(
        architecture=0xC00000B7,
        seccomp=277,
        socket=198,
        shared=(194, 195, 196, 190, 191, 192, 193, 186, 187, 188, 189, 180, 181),
        around=(425, 217, 218, 219),
    ),
}

# Numbers from here on belong to x32 programs.
_X32 = 0x40000000


@cache
def available() -> bool:
    """Return whether the kernel has seccomp and this module supports the machine."""
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        return False
    try:
        return call("seccomp", machine.seccomp, _GET_ACTION_AVAIL, 0, struct.pack("I", _ERROR)) == 0
    except OSError:
        return False


def refuse(families: Collection[int] | None) -> None:
    """Permanently restrict this thread, its later threads and its children. They cannot use System V or POSIX objects,
    or run programs for another architecture than this machine's. They can make only sockets of these families (None:
    any). Does nothing if available() is false.
    """
    if not available():
        return
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    machine = _MACHINES[os.uname().machine]
    program = _program(machine, None if families is None else frozenset(families))
    code = ctypes.create_string_buffer(program, len(program))
    whole = struct.pack("HP", len(program) // 8, ctypes.addressof(code))
    try:
        call("seccomp", machine.seccomp, _SET_MODE_FILTER, _SPEC_ALLOW, whole)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # Before Linux 4.17.
        call("seccomp", machine.seccomp, _SET_MODE_FILTER, 0, whole)


@cache
def _program(machine: _Machine, families: frozenset[int] | None) -> bytes:
    lines = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, machine.architecture), _error(errno.ENOSYS)]
    lines += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), _error(errno.ENOSYS)]
    absent = [*machine.shared, *(machine.around if families is not None else ())]
    for number in absent:
        lines += [(_EQUAL, 0, 1, number), _error(errno.ENOSYS)]
    if families is not None:
        lines += [(_EQUAL, 1, 0, machine.socket), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
        for family in sorted(families):
            lines += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
        lines.append(_error(errno.EACCES))
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _error(code: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERROR | code)
