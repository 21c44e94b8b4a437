"""Resources are never oversubscribed, no action starves, and no action waits without need."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from modelbuild.actions import Resources
from modelbuild.execution.scheduling.resources import ResourcePool, machine

GIB = 1 << 30
TOTAL = Resources(cpu=4, memory=8 * GIB, gpu=1)


class Run:
    """A thread that acquires resources and holds them until `end`."""

    def __init__(self, pool: ResourcePool, wanted: Resources) -> None:
        self._started = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(pool, wanted), daemon=True)
        self._thread.start()

    def _run(self, pool: ResourcePool, wanted: Resources) -> None:
        with pool.acquire(wanted):
            self._started.set()
            self._end.wait(30)

    def started(self) -> bool:
        return self._started.wait(10)

    def waits(self) -> bool:
        return not self._started.wait(0.1)

    def end(self) -> None:
        self._end.set()
        self._thread.join(10)


def resources(cpu: int = 1, memory: int = 1, gpu: int = 0) -> Resources:
    return Resources(cpu, memory * GIB, gpu)


def test_each_kind_limits() -> None:
    for wanted, count in ((resources(cpu=2), 2), (resources(memory=3), 2), (resources(gpu=1), 1)):
        pool = ResourcePool(TOTAL)
        running = [Run(pool, wanted) for _ in range(count)]
        assert all(run.started() for run in running)
        late = Run(pool, wanted)
        assert late.waits()
        running[0].end()
        assert late.started()
        for run in (*running, late):
            run.end()


def test_larger_than_the_whole_runs_alone() -> None:
    for large in (resources(memory=100), resources(cpu=5)):
        pool = ResourcePool(TOTAL)
        small = Run(pool, resources())
        assert small.started()
        huge = Run(pool, large)
        assert huge.waits()
        small.end()
        assert huge.started()
        late = Run(pool, Resources(cpu=1, memory=0))
        assert late.waits()
        huge.end()
        assert late.started()
        late.end()


def test_small_ones_cannot_starve_a_large_one() -> None:
    pool = ResourcePool(TOTAL)
    small = [Run(pool, resources(cpu=2)) for _ in range(2)]
    assert all(run.started() for run in small)
    large = Run(pool, resources(cpu=4))
    assert large.waits()
    late = Run(pool, resources(cpu=1))
    small[0].end()
    assert late.waits()
    small[1].end()
    assert large.started()
    large.end()
    assert late.started()
    late.end()


def test_waiting_for_a_gpu_does_not_stop_actions_without_gpus() -> None:
    pool = ResourcePool(TOTAL)
    first = Run(pool, resources(gpu=1))
    assert first.started()
    second = Run(pool, resources(gpu=1))
    assert second.waits()
    others = [Run(pool, resources()) for _ in range(2)]
    assert all(run.started() for run in others)
    third = Run(pool, resources())
    assert third.waits()
    for run in (first, second, third, *others):
        run.end()


def test_requests_for_too_many_gpus_get_all() -> None:
    """So tests that need a GPU, and report that themselves, run in parallel on a machine without one."""
    pool = ResourcePool(Resources(cpu=2, memory=8 * GIB, gpu=0))
    running = [Run(pool, resources(gpu=2)) for _ in range(2)]
    assert all(run.started() for run in running)
    for run in running:
        run.end()


def test_an_error_gives_back() -> None:
    pool = ResourcePool(TOTAL)
    for _ in range(3):
        try:
            with pool.acquire(resources(cpu=4)):
                raise KeyError
        except KeyError:
            pass


amounts = st.builds(resources, st.integers(0, 6), st.integers(0, 10), st.integers(0, 2))


@given(st.lists(amounts, min_size=1, max_size=30))
def test_never_more_than_there_is(wanted: list[Resources]) -> None:
    pool = ResourcePool(TOTAL)
    lock = threading.Lock()
    held: list[Resources] = []
    wrong: list[list[Resources]] = []

    def run(want: Resources) -> None:
        with pool.acquire(want):
            with lock:
                held.append(want)
                # More GPUs than there are count as those.
                gpus = sum(min(r.gpu, TOTAL.gpu) for r in held)
                used = [sum(r.cpu for r in held), sum(r.memory for r in held), gpus]
                fits = all(u <= t for u, t in zip(used, (TOTAL.cpu, TOTAL.memory, TOTAL.gpu), strict=True))
                if not fits and len([h for h in held if h.cpu or h.memory or h.gpu]) > 1:
                    wrong.append(list(held))
            time.sleep(0.0001)
            with lock:
                held.remove(want)

    threads = [threading.Thread(target=run, args=(want,)) for want in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


def test_this_machine() -> None:
    found = machine(3)
    assert found.cpu == 3
    assert GIB // 4 < found.memory <= 1 << 50
    assert found.gpu == len(list(Path("/dev").glob("nvidia[0-9]*")))
