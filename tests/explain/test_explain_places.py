"""The place where an action ran, as `explain` prints it."""

from __future__ import annotations

import pytest

from modelbuild.actions import Place
from modelbuild.explain.text import verdict_lines
from modelbuild.explain.verdicts import Verdict
from modelbuild.history.action_facts import ActionFacts


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (None, "//m:a#make  ran (2.0 s)"),
        (Place("w1"), "//m:a#make  ran (2.0 s on w1)"),
        (Place("w1", 0.01, 0.02, 2.0, 0.03), "//m:a#make  ran (2.0 s on w1)"),
        (Place("w1", 3.0, 0.0, 2.0, 0.2), "//m:a#make  ran (2.0 s on w1; waited 3.0 s, sent outputs 0.2 s)"),
    ],
)
def test_the_worker_and_what_took_time_around_it(place: Place | None, expected: str) -> None:
    facts = ActionFacts("//m:a#make", "//m:a", "make", "k", "ran", 2.0, {}, {}, (), {}, place)
    assert next(iter(verdict_lines(Verdict(facts, "first")))) == expected
