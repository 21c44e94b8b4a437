"""Slots for coroutines: jobs with the machine's resources, shared in order, without oversubscription or starvation."""

from __future__ import annotations

import heapq
import os
from bisect import insort
from collections.abc import Callable, Sequence
from glob import glob
from itertools import count
from pathlib import Path
from typing import TypeAlias

from modelbuild.actions import Resources
from modelbuild.execution.scheduling.loop import Loop, Promise

Key: TypeAlias = tuple[int, float]
NOTHING = Resources(cpu=0, memory=0)


class Slot:
    """A slot for the action `name`; `async with` waits for it, returns its number, and gives it back."""

    def __init__(self, slots: Slots, name: str, key: Key, arrival: int, needs: Sequence[int], granted: Promise[int]):
        self._slots = slots
        self.name, self.key, self.arrival, self.needs, self.granted = name, key, arrival, needs, granted

    def __lt__(self, other: Slot) -> bool:
        return (self.key, self.arrival) < (other.key, other.arrival)

    async def __aenter__(self) -> int:
        return await self.granted

    async def __aexit__(self, *_: object) -> None:
        self._slots.give(self)


class Slots:
    """At most `number` slots, with numbers from `first`, which share cores, memory and GPUs.

    Actions get slots in the order of `key`, and of arrival if the keys are equal. A later action may overtake if no
    earlier action waits for its resources: a waiting action reserves the free part of its needs. An action larger than
    the machine runs alone. An action that requests more GPUs than exist gets the existing GPUs, and must itself report
    that they are too few.
    """

    def __init__(
        self, loop: Loop, number: int, key: Callable[[str], Key], total: Resources = NOTHING, first: int = 0
    ) -> None:
        self._loop = loop
        self._key = key
        self._whole = _amounts(total)
        self._free = [number, *self._whole]
        self._numbers = list(range(first, first + number))
        self._arrivals = count()
        self._waiting: list[Slot] = []
        self._held: set[Slot] = set()

    def slot(self, name: str, wanted: Resources = NOTHING) -> Slot:
        """Return a slot for an action, which joins the queue now."""
        slot = Slot(self, name, self._key(name), next(self._arrivals), self._needs(wanted), Promise(self._loop))
        insort(self._waiting, slot)
        return slot

    def give(self, slot: Slot) -> None:
        """Take a slot back."""
        self._held.remove(slot)
        heapq.heappush(self._numbers, slot.granted.value())
        self._free = [free + need for free, need in zip(self._free, slot.needs, strict=True)]

    def grant(self, after: Slots | None = None) -> bool:
        """Grant free slots, except to actions behind the first action in `after`. Returns whether some actions wait."""
        if not self._waiting:
            return False
        left, position = self._free, 0
        first = after.first() if after is not None and left[0] else None
        while position < len(self._waiting) and left[0]:
            slot = self._waiting[position]
            if first is not None and first < slot.key:
                break
            fits = all(need <= free for need, free in zip(slot.needs, left, strict=True))
            left = [max(0, free - need) for free, need in zip(left, slot.needs, strict=True)]
            if not fits:
                position += 1
                continue
            del self._waiting[position]
            self._held.add(slot)
            self._free = [free - need for free, need in zip(self._free, slot.needs, strict=True)]
            slot.granted.set(heapq.heappop(self._numbers))
        return bool(self._waiting)

    def first(self) -> Key | None:
        """Return the least key of the actions that have a slot or wait for a slot."""
        return min((slot.key for slot in (*self._held, *self._waiting[:1])), default=None)

    def sort(self) -> None:
        """Recompute all keys, and sort the waiting actions by them."""
        for slot in (*self._held, *self._waiting):
            slot.key = self._key(slot.name)
        self._waiting.sort()

    def _needs(self, wanted: Resources) -> list[int]:
        cpu, memory, gpu = _amounts(wanted)
        needs = [cpu, memory, min(gpu, self._whole[-1])]
        fits = all(need <= limit for need, limit in zip(needs, self._whole, strict=True))
        return [1, *(needs if fits else self._whole)]


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
