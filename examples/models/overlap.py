"""The metric of the quantized detector, in its report and in its test."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def overlap(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """Return the least intersection over union of a face's boxes (n, 4; x1 y1 x2 y2), best first, in both results; 0
    for another number of faces."""
    one, other = found["boxes"], expected["boxes"]
    if one.shape != other.shape or not len(one):
        return 0.0
    sides = np.minimum(one[:, 2:], other[:, 2:]) - np.maximum(one[:, :2], other[:, :2])
    shared = sides.clip(min=0).prod(1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (one, other)]
    return float((shared / (areas[0] + areas[1] - shared)).min())
