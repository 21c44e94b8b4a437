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


class Circuit:
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
def circuit() -> Circuit:
    return Circuit()


def test_successful_calls_are_made_once(circuit: Circuit) -> None:
    assert circuit.breaker.call(circuit.failing("down", 0)) == "done"
    assert (circuit.tries, circuit.pauses, circuit.said) == (1, [], [])


def test_a_bad_line_is_tried_again_after_growing_pauses(circuit: Circuit) -> None:
    assert circuit.breaker.call(circuit.failing("down", ATTEMPTS - 1)) == "done"
    assert circuit.tries == ATTEMPTS
    assert len(circuit.pauses) == ATTEMPTS - 1
    assert circuit.pauses == sorted(circuit.pauses)
    assert circuit.said == []


@pytest.mark.parametrize("kind", ["slow", "refused", "full", "big", "wrong", "missing"])
def test_permanent_errors_are_not_retried(circuit: Circuit, kind: Any) -> None:
    circuit.fail(kind)
    assert circuit.tries == 1


def test_after_failures_in_a_row_it_is_left_alone_for_a_while(circuit: Circuit) -> None:
    for _ in range(THRESHOLD):
        circuit.fail("slow")
    with pytest.raises(CircuitOpen):
        circuit.breaker.call(circuit.failing("slow", 0))
    assert circuit.tries == THRESHOLD
    circuit.now += COOL_DOWN
    assert circuit.breaker.call(circuit.failing("slow", 0)) == "done"


def test_after_the_pause_one_call_tries_for_all(circuit: Circuit) -> None:
    for _ in range(THRESHOLD):
        circuit.fail("slow")
    circuit.now += COOL_DOWN

    def meanwhile() -> str:
        with pytest.raises(CircuitOpen):
            circuit.breaker.call(circuit.failing("slow", 0))
        return "tried"

    assert circuit.breaker.call(meanwhile) == "tried"
    assert circuit.tries == THRESHOLD
    assert circuit.breaker.call(circuit.failing("slow", 0)) == "done"


@pytest.mark.parametrize("kind", ["slow", "down"])
def test_each_failure_after_a_pause_makes_the_next_one_longer(circuit: Circuit, kind: Any) -> None:
    for _ in range(THRESHOLD):
        circuit.fail(kind)
    lasted = []
    for _ in range(8):
        began = circuit.now
        while circuit.breaker.is_open:
            circuit.now += COOL_DOWN
        lasted.append(circuit.now - began)
        circuit.fail(kind)
    assert lasted == [30, 60, 120, 240, 480, 600, 600, 600]


def test_a_missing_blob_is_an_answer(circuit: Circuit) -> None:
    for _ in range(THRESHOLD):
        circuit.fail("slow")
    circuit.now += COOL_DOWN
    circuit.fail("missing")
    assert not circuit.breaker.is_open
    circuit.fail("slow")
    assert not circuit.breaker.is_open


def test_a_success_between_failures_keeps_it_open(circuit: Circuit) -> None:
    for _ in range(3 * THRESHOLD):
        circuit.fail("slow")
        circuit.breaker.call(circuit.failing("slow", 0))
    assert not circuit.breaker.is_open


@pytest.mark.parametrize("kind", ["refused", "full"])
def test_permanent_errors_close_the_circuit(circuit: Circuit, kind: Any) -> None:
    circuit.fail(kind)
    circuit.now += 1e9
    assert circuit.breaker.is_open


def test_lies_add_up_whatever_lies_between(circuit: Circuit) -> None:
    for _ in range(WRONG_ANSWERS):
        assert not circuit.breaker.is_open
        circuit.fail("wrong")
        if circuit.tries < 2 * WRONG_ANSWERS - 1:
            circuit.breaker.call(circuit.failing("wrong", 0))
    circuit.now += 1e9
    assert circuit.breaker.is_open


def test_too_large_blobs_are_reported_once(circuit: Circuit) -> None:
    for kind in (*["slow"] * (THRESHOLD - 1), *["big"] * 3 * THRESHOLD, "slow"):
        circuit.fail(kind)
        assert not circuit.breaker.is_open
    circuit.fail("refused")
    assert circuit.breaker.is_open
    assert circuit.said == ["because slow", "because big"]


def test_it_is_said_once(circuit: Circuit) -> None:
    for kind in ("slow", "down", "wrong", "refused"):
        if not circuit.breaker.is_open:
            circuit.fail(kind)
    assert circuit.said == ["because slow"]
