"""Results that depend on a choice between nearly equal values are compared as sets."""

from __future__ import annotations

import numpy as np
import pytest

from modelbuild_rules.model.steps.calls.differences import Array, equal_choices

DRAW = np.random.default_rng(0)
INDICES = np.arange(20)[None]
ROWS = np.stack([DRAW.permutation(40) for _ in range(4)])
SCORES = DRAW.normal(size=(1, 50))
BOXES = DRAW.normal(size=(1, 50, 4))
KEPT = DRAW.permutation(30)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (INDICES[:, ::-1], INDICES),
        (np.where(INDICES == 3, 99, INDICES), INDICES),
        (ROWS[:, ::-1], ROWS),
        (SCORES[:, ::-1] + 1e-6, SCORES),
        (BOXES[:, ::-1], BOXES),
        (KEPT[:-1], KEPT),
        (np.zeros(0), np.zeros(1)),
        (np.zeros((0, 4)), np.zeros((1, 4))),
        (np.array([7]), np.array([8])),
    ],
)
def test_equal_as_sets(found: Array, wanted: Array) -> None:
    assert equal_choices(found, wanted, 1e-4)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (INDICES + 15, INDICES),
        (ROWS + 20, ROWS),
        (ROWS[::-1] * 41, ROWS),
        (SCORES + 1, SCORES),
        (BOXES + 1, BOXES),
        (KEPT + 9, KEPT),
        (KEPT[:-9], KEPT),
        (KEPT.astype(np.float64) * 1.01, KEPT.astype(np.float64)),
    ],
)
def test_different_as_sets(found: Array, wanted: Array) -> None:
    assert not equal_choices(found, wanted, 1e-4)
