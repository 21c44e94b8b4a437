"""Compares an output with what it should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def compare(found: np.ndarray, wanted: np.ndarray, tolerance: Mapping[str, Any]) -> str:
    """How they differ, in words; '' when they are the same within tolerance.

    tolerance  abs, rel: |found - wanted| <= abs + rel * |wanted| (not compared where both are None); cosine: the least
               one. Values that are not finite must be the same ones.
    """
    if found.shape != wanted.shape:
        return f"shape {list(found.shape)}, expected {list(wanted.shape)}"
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True) or not np.isfinite(one[finite]).all():
        return "values that are not finite stand elsewhere"
    if tolerance["abs"] is not None:
        difference = np.abs(np.where(finite, one, 0.0) - np.where(finite, other, 0.0))
        allowed = tolerance["abs"] + tolerance["rel"] * np.abs(np.where(finite, other, 0.0))
        wrong = difference > allowed
        if wrong.any():
            place = np.unravel_index(int((difference - allowed).argmax()), wanted.shape)
            where = f" at {[int(index) for index in place]}" if place else ""
            return (
                f"{int(wrong.sum())} of {wanted.size} values differ, most{where}: {one[place]:.6g}, expected"
                f" {other[place]:.6g} (abs {tolerance['abs']:g}, rel {tolerance['rel']:g})"
            )
    if tolerance["cosine"] is not None and finite.any():
        cosine = _cosine(one[finite], other[finite])
        if cosine < tolerance["cosine"]:
            return f"cosine {cosine:.6f}, expected at least {tolerance['cosine']:g}"
    return ""


def strays(found: np.ndarray, wanted: np.ndarray, tolerance: Mapping[str, Any]) -> str:
    """How what passes between two nodes differs from what it should be, in words; '' when within tolerance.

    Here `rel` is a part of the greatest magnitude: small values are sums of great ones, and differ as these do.
    """
    if found.shape != wanted.shape:
        return f"has the shape {list(found.shape)}, expected {list(wanted.shape)}"
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True) or not np.isfinite(one[finite]).all():
        return "has infinite or missing numbers elsewhere"
    if not finite.any():
        return ""
    if tolerance["abs"] is None:
        cosine = _cosine(one[finite], other[finite])
        return (
            ""
            if cosine >= tolerance["cosine"]
            else f"has the cosine {cosine:.6f}, expected {tolerance['cosine']:g} or more"
        )
    difference = np.where(finite, np.abs(np.where(finite, one - other, 0.0)), 0.0)
    greatest = float(np.abs(other[finite]).max())
    allowed = tolerance["abs"] + tolerance["rel"] * greatest
    place = np.unravel_index(int(difference.argmax()), wanted.shape)
    if difference[place] <= allowed:
        return ""
    where = f" at {[int(index) for index in place]}" if place else ""
    return (
        f"differs by up to {difference[place]:.3g}{where} ({one[place]:.6g}, expected {other[place]:.6g}), allowed are"
        f" {allowed:.3g} (abs {tolerance['abs']:g}, rel {tolerance['rel']:g} of {greatest:.3g})"
    )


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    if lengths == 0:
        return 1.0 if np.array_equal(one, other) else 0.0
    return float(one @ other) / lengths
