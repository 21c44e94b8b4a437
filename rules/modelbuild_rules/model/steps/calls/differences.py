"""Compare a program's outputs with its module's. Imports neither torch nor executorch.

Rounding errors grow about as the square root of the number of operators. So an output may differ by this root times the
precision of its type, relative to its greatest magnitude. Results of a quantized program differ by steps of its
integers; their error is the root of the mean square.

In results that jump (argmax, topk, nms), two nearly equal values may be exchanged. Such outputs may differ in a
hundredth of their values, or in a tenth of their rows, as a set: rows along the last dimension, in any order. If there
is one row, or rows of indices, each is a set of values, of which a tenth may differ. At least one row or value may
differ, but not in most calls: values are nearly equal in few.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Comparison

Array = np.ndarray[Any, Any]

_PRECISION = {"float64": (1e-9, 1e-6), "float32": (1e-5, 1e-3), "float16": (2e-3, 5e-2), "bfloat16": (1.6e-2, 2e-1)}
"""The allowed difference of one operator and the greatest allowed difference, by type."""

_FEWEST = 16
"""The number of operators below which the number does not count: one operator may be a whole recurrent net."""

_QUANTIZED = 0.1
_FEW_VALUES, _FEW_ROWS = 0.01, 0.1
_MOST_PAIRS = 1 << 24


def allowed(facts: Comparison) -> float:
    """Return the allowed difference of a program's outputs, relative to the greatest magnitude."""
    one, most = _PRECISION[facts["precision"]]
    return min(most, one * math.sqrt(max(_FEWEST, facts["operators"])))


def difference(found: Array, wanted: Array, facts: Comparison, place: int) -> str:
    """Return how the output at a place differs from the module's, as text; '' if it is right."""
    jumps = facts["choices"][place]
    if jumps and facts["quantized"]:
        return ""  # a step of the integers may change any choice
    limit = allowed(facts)
    problem = _difference(found, wanted, limit, facts["quantized"])
    return "" if problem and jumps and equal_choices(found, wanted, limit) else problem


def other_choice(found: Array, wanted: Array, facts: Comparison, place: int) -> str:
    """Return how the output at a place, which is right, differs from the module's by another choice; '' if it is equal
    or only in another order."""
    if not facts["choices"][place] or facts["quantized"]:
        return ""
    limit = allowed(facts)
    problem = _difference(found, wanted, limit, quantized=False)
    return "" if problem and _same_rows(found, wanted, limit, share=0, least=0) else problem


def equal_choices(found: Array, wanted: Array, limit: float) -> bool:
    """Return whether two results are equal except for choices between nearly equal values."""
    return _few_differ(found, wanted, limit) or _same_rows(found, wanted, limit)


def _difference(found: Array, wanted: Array, limit: float, quantized: bool) -> str:
    if found.shape != wanted.shape:
        return f"has the shape {list(found.shape)}, expected {list(wanted.shape)}"
    if not wanted.size:
        return ""
    if wanted.dtype.kind not in "fc" and found.dtype.kind not in "fc":
        wrong = found != wanted
        return _at(found, wanted, wrong) if wrong.any() else ""
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True) or not np.isfinite(one[finite]).all():
        return "has infinities or NaNs at different positions"
    if not finite.any():
        return ""
    error = np.where(finite, np.abs(np.where(finite, one, 0.0) - np.where(finite, other, 0.0)), 0.0)
    if quantized:
        relative = float(np.sqrt(np.square(error).sum() / max(np.square(other[finite]).sum(), 1e-30)))
        return (
            f"has a relative error of {relative:.3g}, expected at most {_QUANTIZED:g}" if relative > _QUANTIZED else ""
        )
    most = limit * max(float(np.abs(other[finite]).max()), 1e-3)
    return _at(found, wanted, error > most) if error.max() > most else ""


def _at(found: Array, wanted: Array, wrong: Array) -> str:
    place = np.unravel_index(int(wrong.argmax()), wrong.shape)
    where = f" at {[int(index) for index in place]}" if place else ""
    values = f"{found[place]:.6g}, expected {wanted[place]:.6g}"
    return f"differs in {int(wrong.sum())} of {wrong.size} values, first{where}: {values}"


def _close(found: Array, wanted: Array, limit: float) -> Array:
    """Return where values are equal: floating-point numbers within the limit, relative to the greatest magnitude."""
    if wanted.dtype.kind not in "fc":
        return np.asarray(found == wanted)
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    scale = np.abs(np.where(np.isfinite(other), other, 0.0)).max(initial=1e-3)
    return np.isclose(one, other, rtol=0.0, atol=limit * scale, equal_nan=True)


def _few_differ(found: Array, wanted: Array, limit: float) -> bool:
    return found.shape == wanted.shape and float((~_close(found, wanted, limit)).mean()) <= _FEW_VALUES


def _are_indices(found: Array, wanted: Array) -> bool:
    """Return whether the integers along the last dimension are distinct, as indices of topk and sort are."""
    return wanted.dtype.kind in "iu" and all(
        (np.diff(np.sort(each, axis=-1), axis=-1) > 0).all() for each in (found, wanted)
    )


def _same_values(found: Array, wanted: Array, limit: float, share: float, least: int) -> bool:
    """Return whether values along the last dimension are equal as sets, except for a fraction or a minimum number of
    values."""
    pairs = zip(found.reshape(-1, found.shape[-1]), wanted.reshape(-1, wanted.shape[-1]), strict=True)
    if wanted.dtype.kind in "fc":
        matched = sum(
            int(_close(np.sort(one)[:common], np.sort(other)[:common], limit).sum())
            for one, other in pairs
            for common in [min(len(one), len(other))]
        )
    else:
        matched = sum((Counter(one.tolist()) & Counter(other.tolist())).total() for one, other in pairs)
    return matched >= max(found.size, wanted.size) * (1 - share) - least


def _same_rows(found: Array, wanted: Array, limit: float, share: float = _FEW_ROWS, least: int = 1) -> bool:
    """Return whether the rows of both are equal as sets, except for a fraction or a minimum number of rows."""
    if found.ndim != wanted.ndim or not found.ndim or found.shape[1:] != wanted.shape[1:]:
        return False
    alike = found.size and wanted.size and found.shape[:-1] == wanted.shape[:-1]
    if alike and (wanted[..., :1].size == 1 or _are_indices(found, wanted)):
        return _same_values(found, wanted, limit, share, least)
    width = wanted.shape[-1] if wanted.ndim > 1 else 1
    one, other = found.reshape(-1, width), wanted.reshape(-1, width)
    if not len(one) or not len(other):
        return abs(len(one) - len(other)) <= least
    if len(one) * len(other) * width > _MOST_PAIRS:
        return False
    left = list(range(len(one)))
    matched = 0
    for row in other:
        equal = _close(one[left], np.broadcast_to(row, (len(left), width)), limit).all(axis=1)
        if equal.any():
            matched += 1
            del left[int(equal.argmax())]
        if not left:
            break
    return matched >= max(len(one), len(other)) * (1 - share) - least
