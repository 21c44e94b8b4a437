"""The program of each kind computes its model's values, or a step refuses it in one line: the outcomes are recorded.

A name without a recorded outcome may be either. RECORD_OUTCOMES=1 in the environment records outcomes instead of
comparing them. `python tests/conformance/run.py NAME` prints those of an operator or a form with their reasons.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable

import pytest

from tests.conformance.attempt import STACKS, Outcome
from tests.conformance.kinds import Kind
from tests.conformance.record import LETTERS, letters, record, recorded
from tests.conformance.table import kinds_of, names

SHARE = 240
"""The quick tests have one name of as many."""

QUICK = (
    *("cosine head", "no images head"),  # their faults came back once
    *("digits of float64", "group_norm mean 200 float32", "linear deep float16", "sums of int64", "powers of int8"),
)
"""Forms that the quick tests have in addition."""


def _parameters() -> list[object]:
    """Return all names; those outside the sample are exhaustive, in groups that several processes run."""
    found: list[object] = []
    for name in names():
        number = zlib.crc32(name.encode())
        marks = [pytest.mark.xdist_group(f"conformance{number % 8}"), pytest.mark.exhaustive]
        sampled = number % SHARE == 0 or name in QUICK
        found.append(pytest.param(name, marks=[pytest.mark.xdist_group("conformance")] if sampled else marks))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", _parameters())
def test_outcomes_are_those_recorded(name: str, attempted: Callable[[Kind], dict[str, Outcome]]) -> None:
    found = [(kind.name, attempted(kind)) for kind in kinds_of(name)]
    row = {stack: letters([outcomes[stack].word for _, outcomes in found]) for stack in STACKS}
    if os.environ.get("RECORD_OUTCOMES"):
        record(name, row)
    known = recorded().get(name) or {stack: "?" * len(found) for stack in STACKS}
    others = [
        f"{kind} on {stack}: {outcomes[stack].word} {outcomes[stack].why}"
        for number, (kind, outcomes) in enumerate(found)
        for stack in STACKS
        if outcomes[stack].is_fault or known[stack][number : number + 1] not in (LETTERS[outcomes[stack].word], "?")
    ]
    assert not others, f"record them with RECORD_OUTCOMES=1 if they are meant: {'; '.join(others)}"
