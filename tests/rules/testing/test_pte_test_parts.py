"""The parts of a pte_test: comparing outputs, generating inputs, budgets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.result_metric import top_agreement
from modelbuild_rules.testing.steps.parity.budgets import budget_cases, slower_than_eager
from modelbuild_rules.testing.steps.parity.compare import compare
from modelbuild_rules.testing.steps.parity.eager import Eager
from modelbuild_rules.testing.steps.parity.parity import tolerance_of
from modelbuild_rules.testing.steps.parity.random_inputs import draw
from modelbuild_runtime.describe import Port
from modelbuild_runtime.shapes import Dim

ONES = np.ones((2, 3), np.float32)


def limits(absolute: float | None = 1e-4, rel: float | None = 0.0, cosine: float | None = None) -> dict[str, Any]:
    return {"abs": absolute, "rel": rel, "cosine": cosine}


def changed(place: tuple[int, int], value: float) -> np.ndarray:
    array = ONES.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("found", "wanted", "tolerance", "problem"),
    [
        (ONES, ONES, limits(0.0), ""),
        (changed((1, 2), 1.00005), ONES, limits(), ""),
        (changed((1, 2), 1.1), ONES, limits(), "1 of 6 values differ, most at [1, 2]: 1.1, expected 1"),
        (changed((1, 2), 1.1), ONES, limits(rel=0.2), ""),
        (changed((1, 2), 1.1), 0 * ONES, limits(rel=0.2), "6 of 6 values differ"),
        (ONES[:1], ONES, limits(), "shape [1, 3], expected [2, 3]"),
        (changed((0, 0), np.nan), ONES, limits(9.0), "infinities or NaNs are at different positions"),
        (changed((0, 0), np.nan), changed((0, 0), np.nan), limits(), ""),
        (
            changed((0, 0), np.inf),
            changed((0, 0), -np.inf),
            limits(9.0),
            "infinities or NaNs are at different positions",
        ),
        (ONES, changed((0, 0), np.nan), limits(9.0), "infinities or NaNs are at different positions"),
        (3 * ONES, ONES, limits(None, None, 0.999), ""),
        (changed((0, 0), -1), ONES, limits(None, None, 0.999), "cosine 0.666667, expected at least 0.999"),
        (0 * ONES, ONES, limits(None, None, 0.5), "cosine 0.000000"),
        (np.array(2), np.array(1), limits(), "1 of 1 values differ, most: 2, expected 1"),
        (ONES[:0], ONES[:0], limits(0.0, 0.0, 1.0), ""),
    ],
)
def test_compare(found: np.ndarray, wanted: np.ndarray, tolerance: dict[str, Any], problem: str) -> None:
    said = compare(found, wanted, tolerance)
    assert said.startswith(problem)
    assert bool(said) == bool(problem)


def generator(**given: Any) -> dict[str, Any]:
    plain = {"seed": 1, "distribution": "uniform", "range": None, "mean": 0.0, "std": 1.0, "sizes": {}}
    return plain | given


BATCH = Dim(1, 8, "batch")
IMAGE = Port("image", "tensor", "float32", (BATCH, Dim(3, 3)), range=(0.0, 255.0))
IDS = Port("ids", "tensor", "int64", (Dim(50, 50),))


def drawn(ports: list[Port], seed: int = 1, **given: Any) -> dict[str, np.ndarray]:
    return draw(ports, generator(**given), np.random.default_rng(seed))


def test_draw_is_decided_by_the_seed() -> None:
    one, same, other = (drawn([IMAGE, IDS], seed) for seed in (1, 1, 2))
    assert one["image"].shape == (2, 3)
    assert one["image"].dtype == np.float32
    assert 1 < one["image"].max() <= 255
    assert set(one["ids"]) == {0, 1}
    np.testing.assert_array_equal(one["image"], same["image"])
    assert not np.array_equal(one["image"], other["image"])


def test_draw_by_distribution_range_and_size() -> None:
    normal = drawn([IMAGE], distribution="normal", mean=100.0, std=0.1, sizes={"batch": 8})["image"]
    assert normal.shape == (8, 3)
    assert abs(normal.mean() - 100) < 1
    assert drawn([IDS], range=(5, 7))["ids"].min() >= 5
    with pytest.raises(StepError, match="input 'image': dimension batch is 9; expected 1 to 8"):
        drawn([IMAGE], sizes={"batch": 9})


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        ("float32", {}, (1e-4, 1e-4)),
        ("float64", {}, (1e-4, 1e-4)),
        ("float16", {}, (1e-2, 1e-2)),
        ("bfloat16", {}, (4e-2, 4e-2)),
        ("int64", {}, (0, 0)),
        ("uint8", {}, (0, 0)),
        ("bool", {}, (0, 0)),
        ("", {}, (1e-4, 1e-4)),
        ("bfloat16", {"abs": 0.5}, (0.5, 4e-2)),
        ("int64", {"rel": 0.5, "abs": 0.0}, (0, 0.5)),
        ("float16", {"cosine": 0.9}, (None, None)),
    ],
)
def test_the_default_tolerance_depends_on_the_type(
    tmp_path: Path, dtype: str, given: dict[str, float], expected: tuple[Any, ...]
) -> None:
    tolerance = {"abs": None, "rel": None, "cosine": None, "ignore": False, **given}
    step = Step({"tolerance": tolerance, "outputs": {}}, {}, {}, tmp_path)
    found = tolerance_of(step, "y", dtype)
    assert (found["abs"], found["rel"]) == expected


ROWS = np.array([[0.1, 0.9, 0.5, 0.2], [0.3, 0.1, 0.2, 0.9]], np.float32)
SWAPPED = ROWS[:, [0, 2, 1, 3]]  # the first row's largest and second largest, and the second row's small ones


@pytest.mark.parametrize(
    ("found", "wanted", "count", "agreement"),
    [
        (ROWS, ROWS, 1, 1.0),
        (SWAPPED, ROWS, 1, 0.5),
        (SWAPPED, ROWS, 2, 1.0),
        (ROWS, ROWS, 99, 1.0),
        (ROWS[:1], ROWS, 1, 0.0),
        (ROWS[0], ROWS[0], 1, 1.0),
        (np.array([3, 1, 2]), np.array([1, 3, 9]), 2, 1.0),
        (np.array([3, 1, 2]), np.array([1, 3, 9]), 3, 2 / 3),
        (np.array(1.5), np.array(1.5), 1, 1.0),
        (ROWS[:0], ROWS[:0], 1, 1.0),
        (0 * ROWS, 0 * ROWS, 1, 1.0),
    ],
)
def test_agreement_of_the_largest_elements(found: np.ndarray, wanted: np.ndarray, count: int, agreement: float) -> None:
    assert top_agreement(found, wanted, count) == pytest.approx(agreement)


NODES = [
    {"name": "a", "module": "features.0", "backend": "xnnpack", "partition": "p0", "refused": []},
    {"name": "b", "module": "features.1", "backend": "portable", "refused": [{"backend": "xnnpack", "why": "dtype"}]},
    {"name": "c", "module": None, "backend": "xnnpack", "partition": "p0", "refused": []},
    {"name": "d", "module": "featuresque", "backend": "portable", "refused": []},
]
DELEGATION = {"nodes": NODES, "partitions": [{"id": "p0"}]}


@pytest.mark.parametrize(
    ("budgets", "message"),
    [
        ({"limits.bytes": 100}, ""),
        ({"limits.bytes": 99}, "100 bytes, expected at most 99"),
        ({"limits.partitions": 0}, "1 partitions, expected at most 0"),
        ({"limits.delegated": 0.5}, ""),
        ({"limits.delegated": 0.51}, "0.5 of the nodes are delegated, expected at least 0.51"),
        ({"latency.ratio": 2}, ""),
        ({"latency.ratio": 1.9}, "2 times the baseline's latency, expected at most 1.9"),
        ({"limits.memory": 9}, "10 bytes of memory, expected at most 9"),
    ],
)
def test_budgets(budgets: dict[str, float], message: str) -> None:
    measures = {"bytes": 100.0, "memory": 10.0, "latency_ms": 4.0, "baseline_ms": 2.0}
    (case,) = budget_cases(budgets, {}, DELEGATION, measures)
    assert (case.status, case.message) == ("failed" if message else "passed", message)


@pytest.mark.parametrize(
    ("module", "backend", "message"),
    [
        ("features.0", "xnnpack", ""),
        ("features", "xnnpack", "1 of 2 nodes are not in xnnpack; for example, b is in portable (xnnpack: dtype)"),
        ("head", "xnnpack", "no node of the lowered graph comes from 'head'"),
    ],
)
def test_expected_backends(module: str, backend: str, message: str) -> None:
    (case,) = budget_cases({}, {module: backend}, DELEGATION, {"bytes": 0.0, "memory": 0.0, "latency_ms": 0.0})
    assert (case.status, case.message) == ("failed" if message else "passed", message)


@pytest.mark.parametrize(
    ("program", "eager", "note"),
    [
        (2.5, 2.0, "slower than eager PyTorch: 2.5 ms instead of 2 ms"),
        (2.3, 2.0, ""),
        (0.15, 0.01, ""),
        (1.0, 2.0, ""),
        (2.5, None, ""),
    ],
)
def test_a_program_that_is_slower_than_eager_pytorch_is_noted(program: float, eager: float | None, note: str) -> None:
    """Not by what measurements vary, and not where eager mode was not measured, as for a program on a GPU."""
    measures = {"latency_ms": program, **({} if eager is None else {"eager_ms": eager})}
    assert slower_than_eager(measures) == note


def test_eager_mode_has_the_programs_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    eager = object.__new__(Eager)
    monkeypatch.setattr(Eager, "run", lambda self, plan: seen.add((torch.get_num_threads(), len(plan))))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5})
    before = torch.get_num_threads()
    planned: Any = None
    assert eager.latency_ms(planned) >= 0
    assert seen == {(3, 1)}
    assert torch.get_num_threads() == before
