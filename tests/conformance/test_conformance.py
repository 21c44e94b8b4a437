"""The program of each kind computes its model's values, or a step refuses it in one line: the outcomes are recorded.

`python tests/conformance/run.py NAME` prints those of an operator or a form with their reasons; with `--record`, it
records them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest

from tests.conformance.attempt import STACKS, Outcome
from tests.conformance.forms import FORMS
from tests.conformance.kinds import Kind
from tests.conformance.record import LETTERS, recorded
from tests.conformance.table import kinds_of, names

SHARE = 240
"""The quick tests have one name of as many."""

QUICK = (
    *("cosine head", "no images head"),  # their faults came back once
    *("digits of float64", "group_norm mean 200 float32", "linear deep float16", "sums of int64", "powers of int8"),
)
"""Forms that the quick tests have in addition."""


def _parameters() -> list[object]:
    """Return all names; those outside the sample are exhaustive, in groups that several processes run. Of operators,
    they are those recorded: the database's own names take seconds to import, in each process that collects tests."""
    found: list[object] = []
    for name in {**FORMS, **recorded()}:
        number = zlib.crc32(name.encode())
        marks = [pytest.mark.xdist_group(f"conformance{number % 8}"), pytest.mark.exhaustive]
        sampled = number % SHARE == 0 or name in QUICK
        found.append(pytest.param(name, marks=[pytest.mark.xdist_group("conformance")] if sampled else marks))
    return found


@pytest.mark.xdist_group("conformance")
def test_each_operator_is_recorded() -> None:
    found, known = set(names()), recorded().keys()
    assert found == known, f"record {sorted(found - known)}, and remove {sorted(known - found)}"


@pytest.mark.slow
@pytest.mark.parametrize("name", _parameters())
def test_outcomes_are_those_recorded(name: str, attempted: Callable[[Kind], dict[str, Outcome]]) -> None:
    found = [(kind.name, attempted(kind)) for kind in kinds_of(name)]
    known = recorded().get(name, dict.fromkeys(STACKS, ""))
    others = [
        f"{kind} on {stack}: {outcomes[stack].word} {outcomes[stack].why}"
        for number, (kind, outcomes) in enumerate(found)
        for stack in STACKS
        if outcomes[stack].is_fault or known[stack][number : number + 1] != LETTERS[outcomes[stack].word]
    ]
    assert not others, f"record them if they are meant: {'; '.join(others)}"
