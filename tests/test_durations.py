"""Durations that a user writes: one meaning and one error wherever a duration is expected."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from modelbuild.api import Attrs, Duration
from modelbuild.durations import MOST, duration_text, parse_duration
from tests.hostile import NASTY, cases, run_property


class Table(Attrs):
    limit: Duration


@pytest.mark.parametrize(
    ("written", "seconds", "text"),
    [
        (90, 90, "1 min 30 s"),
        ("90", 90, "1 min 30 s"),
        ("1s", 1, "1 s"),
        ("1.5 s", 1.5, "1.5 s"),
        ("30 min", 1800, "30 min"),
        ("1.5 h", 5400, "1 h 30 min"),
        ("2h", 7200, "2 h"),
        ("3661 s", 3661, "1 h 1 min 1 s"),
        (MOST, MOST, "277 h 46 min 40 s"),
    ],
)
def test_durations(written: int | str, seconds: float, text: str) -> None:
    assert parse_duration(written) == seconds == Table.model_validate({"limit": written}).limit
    assert duration_text(seconds) == text


WORDS = 'expected a duration such as "30 min" or "1.5 h", or seconds, got '
RANGE = "expected a duration from 1 s to 1000000 s, got "


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        *(
            (text, WORDS)
            for text in ("", "min", "1 m", "1 hour", "-1 s", "1 h 30 min", "1e3", "1_000", " 1", "1\n", "inf")
        ),
        *((value, RANGE) for value in (0, -1, MOST + 1, "0 s", "0.9", "1000 h")),
    ],
)
def test_invalid_durations(written: int | str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"^expected ") as caught:
        parse_duration(written)
    assert str(caught.value).startswith(problem)


@cases(200, 5_000)
def test_any_text_is_a_duration_or_an_error_of_one_line(examples: int) -> None:
    def holds(text: str) -> None:
        try:
            assert 1 <= parse_duration(text) <= MOST
        except ValueError as error:
            problem = str(error)
        else:
            problem = ""
        assert len(problem.splitlines()) <= 1

    run_property(examples, st.sampled_from(NASTY) | st.text() | st.from_regex(r"[0-9.]{1,20} ?[a-z]{0,3}"), holds)
