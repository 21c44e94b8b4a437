"""Times of files and folders, and how far they are trusted."""

from __future__ import annotations

from modelbuild.times import below_second, granularity, settled

LONG_AGO = 1_600_000_000_123_456_789


def test_settled_times() -> None:
    assert settled(LONG_AGO, LONG_AGO + granularity(LONG_AGO)) == 0
    assert settled(LONG_AGO, LONG_AGO + granularity(LONG_AGO) + 1) == LONG_AGO
    coarse = 1_600_000_000 * 10**9  # a file system that keeps whole seconds
    assert settled(coarse, coarse + 1_900_000_000) == 0


def test_a_time_without_its_seconds() -> None:
    assert below_second(5_000_000_007) == below_second(9_000_000_007) == 7
    assert below_second(5_000_000_000) == 5_000_000_000  # of a file system without fractions
