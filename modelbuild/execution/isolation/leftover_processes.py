"""Ends all that an action has started, before its outputs are looked at.

A process whose parent ends becomes a child of the nearest ancestor that adopts orphans (a "subreaper"), whatever
session or process group it has moved to. A worker adopts those of its programs, and the process that forked the worker
adopts those of the worker. So a child that this process has not forked itself belongs to an action that has ended.
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
    """Kill all children but those that this process has `forked` (process ids), and the children of these, until there
    are no more. Returns when all have ended. Call adopt() before."""
    while orphans := _children() - set(forked):
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            os.waitpid(pid, 0)


def _children() -> set[int]:
    """Process ids of the children of this process, which has one thread; ended ones too."""
    own = os.getpid()
    try:
        return set(map(int, Path(f"/proc/self/task/{own}/children").read_text().split()))
    except FileNotFoundError:
        # The kernel is built without CONFIG_PROC_CHILDREN.
        return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == own}


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
