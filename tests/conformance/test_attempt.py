"""A child that crashes, hangs or fails is an outcome, and so are the differences that a comparison has to find."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch
from torch import nn

from tests.conformance import attempt
from tests.conformance.attempt import Outcome, forked
from tests.conformance.kinds import Kind

KIND = Kind("kind", nn.Identity, [])
TIED = Kind("tied", nn.Identity, [], tied=True)


def test_an_outcome_is_returned() -> None:
    assert forked(lambda: {"portable": Outcome("right"), "xnnpack": Outcome("wrong", "why")}) == {
        "portable": Outcome("right"),
        "xnnpack": Outcome("wrong", "why"),
    }


def test_a_crash_is_an_outcome() -> None:
    assert forked(lambda: os.kill(os.getpid(), signal.SIGSEGV)).word == "killed"


def test_a_child_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "SECONDS", 1)

    def work() -> None:
        while True:
            pass

    assert forked(work).word == "killed"


def test_an_exception_is_an_internal_error() -> None:
    assert forked(lambda: 1 // 0) == Outcome("internal error", "ZeroDivisionError: integer division or modulo by zero")


@pytest.mark.parametrize(
    ("found", "wanted", "right"),
    [
        (np.float32([1, np.nan]), torch.tensor([1.00001, np.nan]), True),
        (np.float32([1, 2]), torch.tensor([1, np.nan]), False),
        (np.float32([1, 2]), torch.tensor([1.0, 2.1]), False),
        (np.float32([1, 2]), torch.tensor([1.0, 2.0], dtype=torch.float64), False),
        (np.float32([1, 2]), torch.tensor([[1.0, 2.0]]), False),
        (np.int64([1, 2]), torch.tensor([1, 3]), False),
        (np.asarray(None), None, True),
    ],
)
def test_results_are_compared(found: object, wanted: object, right: bool) -> None:
    assert (attempt._difference(KIND, (), [found], [wanted]) == "") is right


@pytest.mark.parametrize(("found", "right"), [([2, 1], True), ([1, 2], True), ([0, 1], False), ([2, 9], False)])
def test_ties_are_compared_by_value(found: list[int], right: bool) -> None:
    call = (torch.tensor([1.0, 3.0, 3.0]),)
    difference = attempt._difference(TIED, call, [np.int64([*found, 0])], [torch.tensor([1, 2, 0])])
    assert (difference == "") is right
