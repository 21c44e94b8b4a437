"""Locks by key exclude holders of other open files, such as other builds, and nobody where there are no locks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.store.lock import KeyLocks

ONE, OTHER = "1" * 64, "2" * 64


def asked(answers: list[bool]) -> tuple[Callable[[], bool], list[bool]]:
    """Return a wait that gives these answers, and the list of the answers given."""
    given: list[bool] = []

    def wait() -> bool:
        given.append(answers[len(given)])
        return given[-1]

    return wait, given


def test_a_holder_of_the_same_key_is_waited_for(tmp_path: Path) -> None:
    first, second = KeyLocks(tmp_path / "running"), KeyLocks(tmp_path / "running")
    wait, given = asked([True, True, False])
    with first.held(ONE, lambda: False):
        with second.held(ONE, wait):
            assert given == [True, True, False]  # continues without the lock
        with second.held(OTHER, wait):
            assert len(given) == 3
        third = KeyLocks(tmp_path / "running")
        still, refused = asked([False])
        with third.held(ONE, still):
            assert refused == [False]  # the second one's end freed nothing of the first one
    with second.held(ONE, wait):
        assert len(given) == 3
    for each in (first, second, third):
        each.close()


def test_a_closed_file_frees_its_keys(tmp_path: Path) -> None:
    first, second = KeyLocks(tmp_path / "running"), KeyLocks(tmp_path / "running")
    held = first.held(ONE, lambda: False)
    held.__enter__()
    first.close()
    with second.held(ONE, lambda: pytest.fail("waits")):
        pass


def test_without_a_file_that_can_be_locked_nobody_waits(tmp_path: Path) -> None:
    missing = KeyLocks(tmp_path / "none/running")
    for _ in range(2):
        with missing.held(ONE, lambda: pytest.fail("waits")), missing.held(ONE, lambda: pytest.fail("waits")):
            pass
    missing.close()
