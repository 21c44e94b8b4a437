"""Retries, back-off and the circuit breaker, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modelbuild.remote.cache.circuit_breaker import (
    ATTEMPTS,
    COOL_DOWN,
    THRESHOLD,
    WRONG_ANSWERS,
    CircuitBreaker,
    CircuitOpen,
)
from modelbuild.remote.problems import Kind, RemoteProblem


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.said: list[str] = []
        self.tries = 0
        self.breaker = CircuitBreaker(
            lambda problem: self.said.append(str(problem)), lambda: self.now, self.pauses.append, seed=1
        )

    def failing(self, kind: Kind, times: int = 10**9) -> Callable[[], str]:
        """Return an operation that fails some times, and then succeeds."""
        left = iter(range(times))

        def operation() -> str:
            self.tries += 1
            if next(left, None) is None:
                return "done"
            raise RemoteProblem(kind, f"because {kind}")

        return operation

    def fail(self, kind: Kind) -> None:
        with pytest.raises(RemoteProblem):
            self.breaker.call(self.failing(kind))


@pytest.fixture
def world() -> World:
    return World()


def test_what_works_is_done_once(world: World) -> None:
    assert world.breaker.call(world.failing("down", 0)) == "done"
    assert (world.tries, world.pauses, world.said) == (1, [], [])


def test_a_bad_line_is_tried_again_after_growing_pauses(world: World) -> None:
    assert world.breaker.call(world.failing("down", ATTEMPTS - 1)) == "done"
    assert world.tries == ATTEMPTS
    assert len(world.pauses) == ATTEMPTS - 1
    assert world.pauses == sorted(world.pauses)
    assert world.said == []


@pytest.mark.parametrize("kind", ["slow", "refused", "full", "big", "wrong", "missing"])
def test_what_another_try_would_not_mend_is_not_tried_again(world: World, kind: Any) -> None:
    world.fail(kind)
    assert world.tries == 1


def test_after_failures_in_a_row_it_is_left_alone_for_a_while(world: World) -> None:
    for _ in range(THRESHOLD):
        world.fail("slow")
    with pytest.raises(CircuitOpen):
        world.breaker.call(world.failing("slow", 0))
    assert world.tries == THRESHOLD
    world.now += COOL_DOWN
    assert world.breaker.call(world.failing("slow", 0)) == "done"


def test_after_the_pause_one_failure_is_enough(world: World) -> None:
    for _ in range(THRESHOLD):
        world.fail("slow")
    world.now += COOL_DOWN
    world.fail("slow")
    assert world.breaker.is_open


def test_after_the_pause_one_call_tries_for_all(world: World) -> None:
    for _ in range(THRESHOLD):
        world.fail("slow")
    world.now += COOL_DOWN

    def meanwhile() -> str:
        with pytest.raises(CircuitOpen):
            world.breaker.call(world.failing("slow", 0))
        return "tried"

    assert world.breaker.call(meanwhile) == "tried"
    assert world.tries == THRESHOLD
    assert world.breaker.call(world.failing("slow", 0)) == "done"


@pytest.mark.parametrize("kind", ["slow", "down"])
def test_each_failure_after_a_pause_makes_the_next_one_longer(world: World, kind: Any) -> None:
    for _ in range(THRESHOLD):
        world.fail(kind)
    lasted = []
    for _ in range(8):
        began = world.now
        while world.breaker.is_open:
            world.now += COOL_DOWN
        lasted.append(world.now - began)
        world.fail(kind)
    assert lasted == [30, 60, 120, 240, 480, 600, 600, 600]


def test_what_is_not_there_is_an_answer(world: World) -> None:
    for _ in range(THRESHOLD):
        world.fail("slow")
    world.now += COOL_DOWN
    world.fail("missing")
    assert not world.breaker.is_open
    world.fail("slow")
    assert not world.breaker.is_open


def test_a_success_between_failures_keeps_it_open(world: World) -> None:
    for _ in range(3 * THRESHOLD):
        world.fail("slow")
        world.breaker.call(world.failing("slow", 0))
    assert not world.breaker.is_open


@pytest.mark.parametrize("kind", ["refused", "full"])
def test_what_stays_so_closes_it_for_good(world: World, kind: Any) -> None:
    world.fail(kind)
    world.now += 1e9
    assert world.breaker.is_open


def test_lies_add_up_whatever_lies_between(world: World) -> None:
    for _ in range(WRONG_ANSWERS):
        assert not world.breaker.is_open
        world.fail("wrong")
        if world.tries < 2 * WRONG_ANSWERS - 1:
            world.breaker.call(world.failing("wrong", 0))
    world.now += 1e9
    assert world.breaker.is_open


def test_what_is_not_there_is_no_failure(world: World) -> None:
    for _ in range(3 * THRESHOLD):
        world.fail("missing")
    assert not world.breaker.is_open
    assert world.said == []


def test_what_is_too_big_is_an_answer_that_is_said_once_apart_from_others(world: World) -> None:
    for kind in (*["slow"] * (THRESHOLD - 1), *["big"] * 3 * THRESHOLD, "slow"):
        world.fail(kind)
        assert not world.breaker.is_open
    world.fail("refused")
    assert world.breaker.is_open
    assert world.said == ["because slow", "because big"]


def test_it_is_said_once(world: World) -> None:
    for kind in ("slow", "down", "wrong", "refused"):
        if not world.breaker.is_open:
            world.fail(kind)
    assert world.said == ["because slow"]
