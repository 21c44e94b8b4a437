"""Resources are never oversubscribed, no action starves, and no action waits without need."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelbuild.actions import Resources
from modelbuild.execution.scheduling.loop import Loop
from modelbuild.execution.scheduling.slots import Slot, Slots, machine

GIB = 1 << 30
TOTAL = Resources(cpu=4, memory=8 * GIB, gpu=1)


def resources(cpu: int = 1, memory: int = 1, gpu: int = 0) -> Resources:
    return Resources(cpu, memory * GIB, gpu)


ONE = resources()


class Machine(Slots):
    """Slots whose actions start as soon as they may, in the order of `keys`."""

    def __init__(self, total: Resources = TOTAL, number: int = 100) -> None:
        self.keys: dict[str, tuple[int, float]] = {}
        super().__init__(
            Loop(ThreadPoolExecutor(), lambda: None), number, lambda name: self.keys.get(name, (0, 0.0)), total
        )

    def run(self, wanted: Resources = ONE, name: str = "") -> Slot:
        slot = self.slot(name, wanted)
        self.grant()
        return slot

    def end(self, slot: Slot) -> None:
        self.give(slot)
        self.grant()


@pytest.mark.parametrize(
    ("wanted", "count"), [(resources(cpu=2), 2), (resources(memory=3), 2), (resources(gpu=1), 1)], ids=str
)
def test_each_resource_limits(wanted: Resources, count: int) -> None:
    slots = Machine()
    running = [slots.run(wanted) for _ in range(count)]
    late = slots.run(wanted)
    assert all(slot.granted.done for slot in running)
    assert not late.granted.done
    slots.end(running[0])
    assert late.granted.done


def test_the_number_of_jobs_limits_and_numbers_are_used_again() -> None:
    slots = Machine(number=2)
    first, second, third = (slots.run() for _ in range(3))
    assert [first.granted.value(), second.granted.value(), third.granted.done] == [0, 1, False]
    slots.end(first)
    assert third.granted.value() == 0


@pytest.mark.parametrize("large", [resources(memory=100), resources(cpu=5)], ids=str)
def test_an_action_larger_than_the_machine_runs_alone(large: Resources) -> None:
    slots = Machine()
    small, huge, late = slots.run(), slots.run(large), slots.run(Resources(cpu=1, memory=0))
    assert [slot.granted.done for slot in (small, huge, late)] == [True, False, False]
    slots.end(small)
    assert [slot.granted.done for slot in (huge, late)] == [True, False]
    slots.end(huge)
    assert late.granted.done


def test_small_actions_cannot_starve_a_large_one() -> None:
    slots = Machine()
    small = [slots.run(resources(cpu=2)) for _ in range(2)]
    large, late = slots.run(resources(cpu=4)), slots.run()
    slots.end(small[0])
    assert [slot.granted.done for slot in (large, late)] == [False, False]
    slots.end(small[1])
    assert [slot.granted.done for slot in (large, late)] == [True, False]


def test_an_action_that_waits_for_a_gpu_does_not_stop_actions_that_need_none() -> None:
    slots = Machine()
    runs = [slots.run(resources(gpu=gpu)) for gpu in (1, 1, 0, 0, 0)]
    assert [slot.granted.done for slot in runs] == [True, False, True, True, False]


def test_an_action_that_requests_more_gpus_than_exist_gets_the_existing_ones() -> None:
    """So tests that need a GPU, and report that themselves, run in parallel on a machine without one."""
    slots = Machine(Resources(cpu=2, memory=8 * GIB, gpu=0))
    assert all(slots.run(resources(gpu=2)).granted.done for _ in range(2))


def test_actions_start_in_order_and_not_before_the_lookup_of_an_earlier_one() -> None:
    slots, lookups = Machine(number=1), Machine()
    slots.keys = lookups.keys = {"a": (1, 0.0), "b": (2, 0.0), "c": (3, 0.0)}
    running = slots.run()
    waiting = {name: slots.run(name=name) for name in "cb"}
    lookup = lookups.run(name="a")
    slots.give(running)
    assert slots.grant(after=lookups)
    assert not any(slot.granted.done for slot in waiting.values())
    lookups.end(lookup)
    slots.grant(after=lookups)
    assert {name: slot.granted.done for name, slot in waiting.items()} == {"b": True, "c": False}


def test_a_new_order_applies_to_actions_that_wait() -> None:
    slots = Machine(number=1)
    running = slots.run()
    waiting = {name: slots.run(name=name) for name in "abc"}
    slots.keys = {"a": (3, 0.0), "b": (2, 0.0), "c": (1, 0.0)}
    slots.sort()
    slots.end(running)
    assert {name: slot.granted.done for name, slot in waiting.items()} == {"a": False, "b": False, "c": True}


amounts = st.builds(resources, st.integers(0, 6), st.integers(0, 10), st.integers(0, 2))


@given(st.lists(amounts, min_size=1, max_size=30), st.randoms())
def test_all_run_and_never_more_than_the_machine_has(wanted: list[Resources], drawn: random.Random) -> None:
    slots = Machine()
    runs = [slots.run(want) for want in wanted]
    while runs:
        running = [slot for slot in runs if slot.granted.done]
        assert running
        used = [sum(slot.needs[kind] for slot in running) for kind in (1, 2, 3)]
        assert all(use <= limit for use, limit in zip(used, (TOTAL.cpu, TOTAL.memory, TOTAL.gpu), strict=True))
        ended = drawn.choice(running)
        runs.remove(ended)
        slots.end(ended)


def test_this_machine() -> None:
    found = machine(3)
    assert found.cpu == 3
    assert GIB // 4 < found.memory <= 1 << 50
    assert found.gpu == len(list(Path("/dev").glob("nvidia[0-9]*")))
