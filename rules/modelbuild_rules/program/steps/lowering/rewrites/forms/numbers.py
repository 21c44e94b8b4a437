"""Forms of elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def floating(x: Tensor) -> Tensor:
    """Return numbers in the floating-point type in which eager mode computes with them."""
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def _angle(x: Tensor) -> Any:
    if x.is_complex():
        return NotImplemented
    x = floating(x)
    return torch.where(x < 0, math.pi, torch.where(torch.isnan(x), x, torch.zeros_like(x)))


def _copysign(x: Tensor, y: Any) -> Any:
    """Return numbers with the sign of another number."""
    size = floating(x).abs()
    return -size if math.copysign(1, y) < 0 else size  # programs lose the sign of the number -0.0


def _same_type(operator: Any) -> Callable[..., Any]:
    """Return the form of an operator whose kernel has tensors of one floating-point type."""

    def combined(x: Tensor, y: Tensor) -> Any:
        kind = torch.result_type(x, y)
        kind = kind if kind.is_floating_point else torch.get_default_dtype()
        return NotImplemented if x.dtype == y.dtype == kind else operator(x.to(kind), y.to(kind))

    return combined


def _shifted_left(x: Tensor, y: Any) -> Any:
    """Return shifted numbers: 0 if no bit is left, where the kernel shifts by the remainder."""
    kind = torch.result_type(x, y)
    bits = torch.iinfo(kind).bits
    places = y.to(kind) if isinstance(y, Tensor) else torch.full_like(x, y, dtype=kind)
    moved = torch.bitwise_left_shift(x.to(kind), places.clamp(0, bits - 1))
    return torch.where((places < 0) | (places >= bits), torch.zeros_like(moved), moved)


def _of_number(operator: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """Return the form of an operator on a number and a tensor: the operator on two tensors."""

    def of_tensors(x: Any, y: Tensor) -> Tensor:
        return operator(torch.full_like(y, x, dtype=torch.result_type(y, x)), y)

    return of_tensors


def _exp2(x: Tensor) -> Any:
    return torch.pow(2.0, floating(x))


def _logaddexp2(x: Tensor, y: Tensor) -> Any:
    greatest = torch.maximum(x, y)
    same = (x == y) & torch.isinf(x)  # no difference of infinities
    added = greatest + torch.log1p(torch.pow(2.0, -(x - y).abs())) / math.log(2)
    return torch.where(same, greatest, added)


def _either(chosen: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Any:
    """Return the chosen of two numbers, either of which may be NaN."""
    both = chosen(x, y)
    if not both.dtype.is_floating_point:
        return both
    return torch.where(torch.isnan(x), y.to(both.dtype), torch.where(torch.isnan(y), x.to(both.dtype), both))


def _hypot(x: Tensor, y: Tensor) -> Any:
    x, y = x.abs(), y.abs()
    long, short = torch.maximum(x, y), torch.minimum(x, y)
    ratio = torch.where(long == 0, torch.zeros_like(long), short / long)
    infinite = torch.isinf(x) | torch.isinf(y)
    return torch.where(infinite, math.inf, long * torch.sqrt(ratio * ratio + 1))


def _round(x: Tensor, *, decimals: int) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    ten = 10.0 ** abs(decimals)
    return torch.round(x * ten) / ten if decimals >= 0 else torch.round(x / ten) * ten


FORMS: Mapping[Any, Callable[..., Any]] = {
    aten.__lshift__.Scalar: _shifted_left,
    aten.__lshift__.Tensor: _shifted_left,
    aten.__rshift__.Scalar: torch.bitwise_right_shift,
    aten.__rshift__.Tensor: torch.bitwise_right_shift,
    aten.angle.default: _angle,
    aten.bitwise_left_shift.Scalar_Tensor: _of_number(_shifted_left),
    aten.bitwise_right_shift.Scalar_Tensor: _of_number(torch.bitwise_right_shift),
    aten.copysign.Scalar: _copysign,
    aten.exp2.default: _exp2,
    aten.fmax.default: partial(_either, torch.maximum),
    aten.fmin.default: partial(_either, torch.minimum),
    aten.hypot.default: _hypot,
    aten.logaddexp2.default: _logaddexp2,
    aten.remainder.Scalar_Tensor: _of_number(torch.remainder),
    aten.round.decimals: _round,
}

CORRECTIONS: Mapping[Any, Callable[..., Any]] = {
    aten.copysign.Tensor: _same_type(aten.copysign.Tensor),
    aten.nextafter.default: _same_type(aten.nextafter.default),
}
"""Forms of operators whose kernels in modelbuild support fewer types."""
