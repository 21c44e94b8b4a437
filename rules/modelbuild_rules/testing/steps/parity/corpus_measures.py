"""Numbers that are not means over samples: mean average precision of boxes, and the word error rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True)
class Words:
    """The number of wrong words of a sample, and of all its right words."""

    wrong: int
    all: int

    @classmethod
    def of(cls, name: str, found: np.ndarray, right: np.ndarray, blank: int | None) -> Words:
        """Return the numbers of an output of words, or of scores of all words in its last dimension: then the largest
        counts, and repeated words count once. `blank` and negative numbers are not words. Raises StepError for another
        number of rows."""
        scores = found.dtype.kind == "f"
        words = found.argmax(-1) if scores else found
        rows, labels = (each.reshape(-1, each.shape[-1] if each.ndim else 1) for each in (words, right))
        if len(rows) != len(labels):
            raise StepError(f"{len(labels)} rows of labels for {len(rows)} of '{name}'; expected as many")
        one = [list(_words(row, blank, scores)) for row in rows]
        other = [list(_words(row, blank, False)) for row in labels]
        pairs = list(zip(one, other, strict=True))
        return cls(sum(_edits(*pair) for pair in pairs), sum(len(each) for each in other))


def word_error_rate(samples: Sequence[Words]) -> float:
    """Return the number of words to insert, delete or replace, divided by the number of right words."""
    count = sum(each.all for each in samples)
    if not count:
        raise StepError("the labels have no word; expected one or more")
    return sum(each.wrong for each in samples) / count


def _words(row: np.ndarray, blank: int | None, once: bool) -> Iterator[int]:
    before = None
    for each in row.tolist():
        if each >= 0 and each != blank and not (once and each == before):
            yield int(each)
        before = each


def _edits(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the edit distance."""
    above = list(range(len(other) + 1))
    for row, word in enumerate(one, 1):
        line = [row]
        for place, right in enumerate(other, 1):
            line.append(min(above[place] + 1, line[-1] + 1, above[place - 1] + (word != right)))
        above = line
    return above[-1]
