"""System calls that Python 3.11 has no functions for."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, argument: int) -> None:
    """Change an attribute of this process. Raises OSError."""
    _checked("prctl", _libc.prctl(option, ctypes.c_ulong(argument), *(ctypes.c_ulong(0),) * 3))


def call(name: str, number: int, *arguments: object) -> int:
    """Make the system call with that number. Raises OSError, whose message begins with `name`."""
    return _checked(name, _libc.syscall(ctypes.c_long(number), *arguments))


def _checked(name: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result
