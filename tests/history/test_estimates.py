"""Expected seconds of actions, from their earlier runs and from those of others of their kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from modelbuild.history.action_facts import ActionFacts
from modelbuild.history.estimates import expected_seconds, typical_seconds
from modelbuild.history.write import BuildFacts, remember
from modelbuild.report.time_left import TimeLeft

RAN = {"//m:a#kernel:x": 1.0, "//m:a#kernel:y": 3.0, "//m:b#kernel:x": 2.0, "//m:a#wrapper:p0": 5.0}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a cache in which these actions ran once."""
    measured: Mapping[tuple[str, str], float] = {(name, "seconds"): seconds for name, seconds in RAN.items()}
    facts = {name: ActionFacts(name, "//m:a", "kernel", "k", "ran", 1.0, {}, {}, ()) for name in RAN}
    remember(tmp_path, tmp_path, BuildFacts(1.0, True, facts, {}, measured))
    return tmp_path


def test_an_action_that_never_ran_is_expected_to_take_what_is_typical_of_its_kind(cache: Path) -> None:
    assert typical_seconds(cache) == {"kernel": 2.0, "wrapper": 5.0}
    names = ["//m:a#kernel:y", "//m:c#kernel:new", "//m:c#wrapper:p0", "//m:c#link:p0"]
    assert expected_seconds(cache, names) == dict(zip(names, [3.0, 2.0, 5.0, 1.0], strict=True))


def test_without_a_history(tmp_path: Path) -> None:
    assert expected_seconds(tmp_path, RAN) == dict.fromkeys(RAN, 1.0)
    assert typical_seconds(tmp_path) == {}


def test_time_is_left_for_actions_that_never_ran(cache: Path) -> None:
    left = TimeLeft(cache)
    left.expect(["//m:a#kernel:y", "//m:c#wrapper:p0"])
    assert left.left([("//m:a#kernel:y", 1.0)], jobs=1) == 7.0
    left.expect(["//m:c#link:p0"])
    assert left.left([], jobs=1) is None
    for name in ("//m:a#kernel:y", "//m:c#link:p0"):
        left.ended(name)
    assert left.left([], jobs=4) == 5.0
