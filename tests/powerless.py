"""Run a test's code as an ordinary user, although root runs the test."""

from __future__ import annotations

import ctypes
import os


def give_up_power() -> None:
    """Give up root's right to read and write whatever it likes, in this process and those that it starts."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        assert libc.capset(header, (ctypes.c_uint32 * 6)()) == 0
