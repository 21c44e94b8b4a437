"""The machine's resources, shared among running actions without oversubscription or starvation."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path

from modelbuild.actions import Resources


class ResourcePool:
    """Cores, memory and GPUs. Safe for many threads.

    Actions start in order of arrival, but a later action may overtake with resources that no earlier one waits for.
    Each waiting action reserves the free part of its resources, so it starts at the latest when the actions that ran at
    its arrival, or overtook it, have ended. An action larger than the machine runs alone. An action that requests more
    GPUs than exist gets the existing ones, and must report itself that they are too few.
    """

    def __init__(self, total: Resources) -> None:
        self._total = total
        self._free = _amounts(total)
        self._changed = threading.Condition()
        self._waiting: list[list[int]] = []

    @contextmanager
    def acquire(self, wanted: Resources) -> Iterator[None]:
        """Wait for resources, and hold them in the `with` block."""
        needs = self._needs(wanted)
        self._take(needs)
        try:
            yield
        finally:
            with self._changed:
                self._free = [free + need for free, need in zip(self._free, needs, strict=True)]
                self._changed.notify_all()

    def _needs(self, wanted: Resources) -> list[int]:
        needs, whole = _amounts(wanted), _amounts(self._total)
        needs[-1] = min(needs[-1], whole[-1])
        fits = all(need <= limit for need, limit in zip(needs, whole, strict=True))
        return needs if fits else whole

    def _take(self, needs: list[int]) -> None:
        with self._changed:
            self._waiting.append(needs)
            try:
                self._changed.wait_for(lambda: self._may_start(needs))
                self._free = [free - need for free, need in zip(self._free, needs, strict=True)]
            finally:
                del self._waiting[self._position(needs)]
                self._changed.notify_all()

    def _may_start(self, needs: list[int]) -> bool:
        left = self._free
        for earlier in self._waiting[: self._position(needs)]:
            left = [max(0, free - need) for free, need in zip(left, earlier, strict=True)]
        return all(need <= free for need, free in zip(needs, left, strict=True))

    def _position(self, needs: list[int]) -> int:
        return next(i for i, waiting in enumerate(self._waiting) if waiting is needs)


def _amounts(resources: Resources) -> list[int]:
    return [resources.cpu, resources.memory, resources.gpu]


def machine(jobs: int) -> Resources:
    """Return the resources of this machine for `jobs` single-threaded actions: as many cores, the memory (bytes) of
    the machine or the cgroup's limit, and its NVIDIA GPUs."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        memory = min(memory, int(text))
    return Resources(cpu=jobs, memory=memory, gpu=len(glob("/dev/nvidia[0-9]*")))
