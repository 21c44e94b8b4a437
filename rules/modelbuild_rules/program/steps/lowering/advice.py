"""Operators that backends refuse, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

ADVICE: Mapping[str, str] = {
    "aten.bucketize.Tensor": "(x[..., None] > boundaries).sum(-1)",
    "aten.max.dim": "amax for the values, argmax for their indices",
    "aten.median.dim": "sort, and an index of the middle",
    "aten.min.dim": "amin for the values, argmin for their indices",
    "aten.nonzero.default": "topk of the mask with a fixed number, or where, which keeps the size",
}
"""By operator. tests/rules/backends/tensorrt/test_advice.py shows that backends take what it says."""
