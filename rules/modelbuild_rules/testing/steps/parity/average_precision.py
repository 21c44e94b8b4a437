"""COCO's mean average precision of boxes over all samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from modelbuild.step import StepError

_OVERLAPS = np.linspace(0.5, 0.95, 10)
_RECALLS = np.linspace(0, 1, 101)


@dataclass(frozen=True)
class Boxes:
    """The boxes of a sample as corners (x1, y1, x2, y2), with a class each; `scores` are the found boxes' scores."""

    found: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    right: np.ndarray
    right_classes: np.ndarray

    @classmethod
    def of(
        cls,
        result: Mapping[str, np.ndarray],
        sample: Mapping[str, np.ndarray],
        output: tuple[str, str, str],
        label: tuple[str, str],
    ) -> Boxes:
        """Return the boxes of a result and its sample. `output` has the names of boxes, scores and classes, `label` the
        names of right boxes and classes; '' for boxes of one class. Raises StepError for arrays of other sizes."""
        found, right = _corners(output[0], result[output[0]]), _corners(label[0], sample[label[0]])
        scores = result[output[1]].astype(np.float64).ravel()
        classes = result[output[2]].ravel() if output[2] else np.zeros(len(found))
        right_classes = sample[label[1]].ravel() if label[1] else np.zeros(len(right))
        for name, array, boxes in (
            (output[1], scores, found),
            (output[2], classes, found),
            (label[1], right_classes, right),
        ):
            if len(array) != len(boxes):
                raise StepError(f"'{name}' has {len(array)} values for {len(boxes)} boxes; expected one for each box")
        return cls(found, scores, classes, right, right_classes)


def mean_average_precision(samples: Sequence[Boxes]) -> float:
    """Return COCO's mean average precision: the mean over classes, and over overlaps (intersection over union) from 0.5
    to 0.95, of the precision at 101 recalls."""
    classes = np.unique(np.concatenate([each.right_classes for each in samples]))
    if not len(classes):
        raise StepError("no sample has a right box; expected one or more")
    return float(np.mean([_average_precision(samples, each) for each in classes]))


def _average_precision(samples: Sequence[Boxes], wanted: float) -> float:
    scores, overlaps = [], []
    count = 0
    for sample in samples:
        own = sample.classes == wanted
        right = sample.right[sample.right_classes == wanted]
        count += len(right)
        scores.append(sample.scores[own])
        overlaps.append(_overlaps(sample.found[own], right))
    places = [(number, box) for number, each in enumerate(scores) for box in range(len(each))]
    order = np.argsort(-np.concatenate(scores), kind="stable")
    return float(np.mean([_at([places[each] for each in order], overlaps, count, least) for least in _OVERLAPS]))


def _at(places: Sequence[tuple[int, int]], overlaps: Sequence[np.ndarray], count: int, least: float) -> float:
    """Return the average precision at an overlap. A right box counts once, for the found box of the highest score."""
    free = [np.ones(each.shape[1], dtype=bool) for each in overlaps]
    hits = np.zeros(len(places))
    for rank, (number, box) in enumerate(places):
        row = np.where(free[number], overlaps[number][box], -1.0)
        if len(row) and row.max() >= least:
            free[number][row.argmax()] = False
            hits[rank] = 1
    total = np.cumsum(hits)
    precision = total / np.arange(1, len(places) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    first = np.searchsorted(total / count, _RECALLS - 1e-12)
    return float(np.mean([best[place] if place < len(best) else 0.0 for place in first]))


def _overlaps(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the intersection over union of each pair of boxes."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    inside = np.clip(high - low, 0, None).prod(-1)
    areas = [np.clip(each[:, 2:] - each[:, :2], 0, None).prod(-1) for each in (one, other)]
    return inside / np.maximum(areas[0][:, None] + areas[1][None, :] - inside, 1e-12)


def _corners(name: str, array: np.ndarray) -> np.ndarray:
    if not array.ndim or array.shape[-1] != 4:
        raise StepError(f"'{name}' has the shape {list(array.shape)}; expected boxes of 4 numbers")
    return array.astype(np.float64).reshape(-1, 4)
