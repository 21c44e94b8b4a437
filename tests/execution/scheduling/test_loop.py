"""Coroutines await calls in threads and each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from modelbuild.execution.scheduling.loop import Loop, Promise


def loop(threads: int = 2) -> Loop:
    return Loop(ThreadPoolExecutor(threads), lambda: None)


def test_calls_run_at_the_same_time_and_promises_have_their_values() -> None:
    here, both = loop(), Barrier(2)

    async def call(number: int) -> int:
        await here.call(lambda: both.wait(timeout=30))
        return number

    async def main() -> list[int]:
        calls = [here.spawn(call(number)) for number in (1, 2)]
        return [await end for end in calls] + [await calls[0]]

    assert here.run(main()) == [1, 2, 1]
    assert not here.busy


def test_a_coroutine_can_catch_the_error_of_a_call_and_any_other_error_ends_the_loop() -> None:
    here = loop()

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await here.call(lambda: 1 / 0)
        here.spawn(here.call(lambda: int("x")))
        await Promise(here)

    with pytest.raises(ValueError, match="invalid literal"):
        here.run(main())


def test_coroutines_that_wait_for_each_other_are_an_error() -> None:
    here = loop()

    async def main() -> None:
        await Promise(here)

    with pytest.raises(RuntimeError, match="wait for each other"):
        here.run(main())


def test_idle_is_called_when_no_coroutine_can_go_on() -> None:
    steps: list[str] = []

    def idle() -> None:
        steps.append("idle")
        last.set("end")

    here = Loop(ThreadPoolExecutor(1), idle)
    last: Promise[str] = Promise(here)

    async def step(name: str) -> None:
        steps.append(name)

    async def main() -> str:
        for name in "ab":
            await here.spawn(step(name))
        return await last

    assert here.run(main()) == "end"
    assert steps == ["a", "b", "idle"]
