"""Run a test's code as an ordinary user, although root runs the test."""

from __future__ import annotations

import ctypes
import os

AS_USER = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
"""Runs the command that follows, and the processes it starts, without root's right to read and write everything."""


def give_up_power() -> None:
    """Drop root's right to read and write any file, in this process and those that it forks."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        assert libc.capset(header, (ctypes.c_uint32 * 6)()) == 0
