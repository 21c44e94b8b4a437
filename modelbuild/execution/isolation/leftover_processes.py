"""End all processes of an action before its outputs are collected.

A process whose parent ends becomes a child of the nearest ancestor that adopts orphans (a "subreaper"), in any session
or process group. A worker adopts the orphans of its programs, and the fork server adopts the worker's orphans. So a
child that this process did not fork belongs to a finished action.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from pathlib import Path

from modelbuild.execution.isolation.system_calls import PR_SET_CHILD_SUBREAPER, prctl


def adopt() -> None:
    """Make this process the parent of orphans among its descendants."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_orphans(forked: Collection[int]) -> None:
    """Kill all children, except the children that this process `forked` (process ids) and their children, until no
    others are left. Returns when all have ended. Call adopt() before."""
    while orphans := _children() - set(forked):
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            os.waitpid(pid, 0)


def _children() -> set[int]:
    """Return process ids of this process's children, including children that have ended. The process must have one
    thread."""
    own = os.getpid()
    try:
        return set(map(int, Path(f"/proc/self/task/{own}/children").read_text().split()))
    except FileNotFoundError:
        # A kernel without CONFIG_PROC_CHILDREN.
        return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == own}


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
