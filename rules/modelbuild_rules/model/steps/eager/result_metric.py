"""Compute metrics: numbers computed from a result and the expected result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from modelbuild.step import StepError
from modelbuild_rules.model.steps.eager.entry import load_function

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import ResultMetricParams


def metric_name(metric: ResultMetricParams) -> str:
    """Return a metric's name for messages, such as `overlap`, or `top 1 of 'logits'`."""
    return f"top {metric['top']} of '{metric['output']}'" if metric["top"] else metric["entry"].partition(":")[2]


def import_metrics(root: Path, metrics: Iterable[Mapping[str, Any]]) -> None:
    """Import the Python files of metrics. Called before a program is read, because torchvision, which they may import,
    cannot be imported later (operators/steps/torchvision_operators.py)."""
    for metric in metrics:
        if metric["entry"]:
            load_function(root, metric["entry"])


def metric_value(
    root: Path, metric: ResultMetricParams, found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]
) -> float:
    """Return a metric of a result. `root`: the folder of the metric's Python file. Raises StepError for a function that
    returns no number; exceptions of the function are not caught."""
    if metric["top"]:
        return top_agreement(found[metric["output"]], expected[metric["output"]], metric["top"])
    given = load_function(root, metric["entry"])(found, expected)
    try:
        return float(given)
    except (TypeError, ValueError) as error:
        raise StepError(f"metric {metric['entry']} returns a {type(given).__name__}; expected a number") from error


def top_agreement(found: np.ndarray, wanted: np.ndarray, count: int) -> float:
    """Return the fraction of the `count` largest elements of each row whose indices both arrays share. Rows are along
    the last dimension. In arrays of integers, which are indices, the first `count` of each row are compared."""
    if found.shape != wanted.shape:
        return 0.0
    one, other = (_top(array.reshape(-1, array.shape[-1] if array.ndim else 1), count) for array in (found, wanted))
    shared = sum(len(set(a) & set(b)) for a, b in zip(one, other, strict=True))
    total = sum(len(set(b)) for b in other)
    return shared / total if total else 1.0


def _top(rows: np.ndarray, count: int) -> list[list[int]]:
    if rows.dtype.kind in "iu":
        return [[int(each) for each in row] for row in rows[:, :count]]
    # Of equal elements, the first counts in both arrays.
    return [
        [int(each) for each in row] for row in np.argsort(-rows.astype(np.float64), axis=1, kind="stable")[:, :count]
    ]
