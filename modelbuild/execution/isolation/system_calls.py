"""System calls without functions in Python 3.11. All raise OSError, with the call's name in the message."""

from __future__ import annotations

import ctypes
import os
import struct

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_NOATIME, MS_BIND, MS_REC = 1, 2, 4, 32, 1024, 4096, 16384

_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, argument: int) -> None:
    """Change an attribute of this process."""
    _checked("prctl", _libc.prctl(option, ctypes.c_ulong(argument), *(ctypes.c_ulong(0),) * 3))


def unshare(kinds: int) -> None:
    """Move this process to new namespaces."""
    _checked("unshare", _libc.unshare(kinds))


def setns(namespace: int, kind: int) -> None:
    """Move this process to the namespace of a descriptor."""
    _checked("setns", _libc.setns(namespace, kind))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system; the flags decide the meaning of `source` and `kind`, see mount(2)."""
    given = [os.fsencode(text) for text in (source, target, kind)]
    _checked(f"mount {target}", _libc.mount(*given, ctypes.c_ulong(flags), os.fsencode(options)))


def drop_capabilities() -> None:
    """Drop all of root's rights except the rights of a file's owner."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _checked("capset", _libc.capset(header, bytes(24)))


def call(name: str, number: int, *arguments: object) -> int:
    """Make the system call with that number."""
    return _checked(name, _libc.syscall(ctypes.c_long(number), *arguments))


def _checked(name: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result
