"""Landlock: make the kernel deny a process and its children every file and TCP port that is not listed.

Available without privileges since Linux 5.13. https://docs.kernel.org/userspace-api/landlock.html documents the calls
(ABI 1 to 7). Rights that an older kernel lacks are omitted, and not enforced there.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from modelbuild.execution.isolation.system_calls import PR_SET_NO_NEW_PRIVS, call, prctl

# Equal on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
# Rights for a path that is not a folder.
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_BIND_AND_CONNECT_TCP = 0b11
# Abstract Unix sockets of, and signals to, processes outside.
_ALL_SCOPES = 0b11

_held: dict[str, int] = {}


def abi() -> int:
    """Return the kernel's version of Landlock; 0 if it has none, or if it is disabled."""
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def knows_scopes() -> bool:
    """Return whether the kernel can deny signals to other processes, and their abstract sockets."""
    return abi() >= 6


def restrict(read: Iterable[str], write: Iterable[str], network: bool, listed: Iterable[str] = ()) -> bool:
    """Permanently restrict this thread, its later threads and its children: they can open only files below `read` (to
    read, list and execute) and `write` (for everything), and list the names in `listed`. Missing paths are ignored.
    Without `network` they cannot bind or connect to a TCP port. Return False, without a restriction, if the kernel has
    no Landlock.
    """
    version = abi()
    if not version:
        return False
    rights = _file_rights(version)
    ports = _BIND_AND_CONNECT_TCP if version >= 4 and not network else 0
    scopes = _ALL_SCOPES if version >= 6 else 0
    attributes = struct.pack("QQQ", rights, ports, scopes)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    try:
        for path in read:
            _allow(ruleset, path, rights & _READ)
        for path in listed:
            _allow(ruleset, path, rights & _READ_DIR)
        for path in write:
            _allow(ruleset, path, rights)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def _file_rights(version: int) -> int:
    """Return all rights over files that this version can deny."""
    return (
        (1 << 13) - 1
        | (_REFER if version >= 2 else 0)
        | (_TRUNCATE if version >= 3 else 0)
        | (_IOCTL_DEV if version >= 5 else 0)
    )


def hold(paths: Iterable[str]) -> None:
    """Keep these paths open for restrict(), here and in forked processes: opening dominates the cost of a rule."""
    release()
    _held.update({path: descriptor for path in paths if (descriptor := _open(path)) is not None})


def release() -> None:
    """Close the descriptors of hold()."""
    while _held:
        os.close(_held.popitem()[1])


def _allow(ruleset: int, path: str, rights: int) -> None:
    held = _held.get(path)
    descriptor = _open(path) if held is None else held
    if descriptor is None:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        _call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        if held is None:
            os.close(descriptor)


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None


def _call(number: int, *arguments: object) -> int:
    return call("Landlock", number, *arguments)
