"""Compare arrays with their expected values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import ToleranceParams


_DEFAULTS = {"float64": 1e-4, "float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2, "": 1e-4}


def default_tolerance(dtype: str) -> float:
    """Return the allowed difference, absolute and relative, of outputs with this dtype: 0 for integers and booleans."""
    return _DEFAULTS.get(dtype, 0.0)


def compare(found: np.ndarray, wanted: np.ndarray, tolerance: ToleranceParams) -> str:
    """Return how an output differs from its expected value, as text; '' if they are equal within tolerance.

    tolerance  abs, rel: |found - wanted| <= abs + rel * |wanted| (not checked if both are None); cosine: the minimum.
               Infinities and NaNs must be equal.
    """
    if found.shape != wanted.shape:
        return f"shape {list(found.shape)}, expected {list(wanted.shape)}"
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True) or not np.isfinite(one[finite]).all():
        return "infinities or NaNs are at different positions"
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
        cosine = vector_cosine(one[finite], other[finite])
        if cosine < tolerance["cosine"]:
            return f"cosine {cosine:.6f}, expected at least {tolerance['cosine']:g}"
    return ""


def node_difference(found: np.ndarray, wanted: np.ndarray, tolerance: ToleranceParams) -> str:
    """Return how a node's result differs from its expected value, as text; '' if they are equal within tolerance.

    Here `rel` is relative to the greatest magnitude: small values may be sums of large values, with large errors.
    """
    if found.shape != wanted.shape:
        return f"has the shape {list(found.shape)}, expected {list(wanted.shape)}"
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True) or not np.isfinite(one[finite]).all():
        return "has infinities or NaNs at different positions"
    if not finite.any():
        return ""
    if tolerance["abs"] is None or tolerance["rel"] is None:
        assert tolerance["cosine"] is not None
        cosine = vector_cosine(one[finite], other[finite])
        return (
            ""
            if cosine >= tolerance["cosine"]
            else f"has cosine {cosine:.6f}, expected at least {tolerance['cosine']:g}"
        )
    difference = np.where(finite, np.abs(np.where(finite, one - other, 0.0)), 0.0)
    greatest = float(np.abs(other[finite]).max())
    allowed = tolerance["abs"] + tolerance["rel"] * greatest
    place = np.unravel_index(int(difference.argmax()), wanted.shape)
    if difference[place] <= allowed:
        return ""
    where = f" at {[int(index) for index in place]}" if place else ""
    return (
        f"differs by up to {difference[place]:.3g}{where} ({one[place]:.6g}, expected {other[place]:.6g}); allowed:"
        f" {allowed:.3g} (abs {tolerance['abs']:g}, rel {tolerance['rel']:g} of {greatest:.3g})"
    )


def vector_cosine(one: np.ndarray, other: np.ndarray) -> float:
    """Return the cosine of the angle between two vectors; of a vector of zeros, 1 if both are equal and 0 if not."""
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    if lengths == 0:
        return 1.0 if np.array_equal(one, other) else 0.0
    return float(one @ other) / lengths
