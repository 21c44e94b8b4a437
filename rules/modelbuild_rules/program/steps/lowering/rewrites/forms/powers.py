"""Forms of powers. ExecuTorch 1.5.1 computes powers of integers in float64, and has other values for -inf and -0.0."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def by_number(x: Tensor, exponent: Any) -> Any:
    """Return square roots, except for float16, and powers of integers."""
    if not torch.result_type(x, exponent).is_floating_point and not x.is_complex():
        return _repeated(x, exponent)
    if not x.is_floating_point() or x.dtype == torch.float16 or exponent not in (0.5, -0.5):
        return NotImplemented
    return torch.sqrt(x) if exponent > 0 else torch.rsqrt(x)


def _repeated(x: Tensor, exponent: int) -> Tensor:
    """Return x * x * ..., by squares. Eager mode refuses negative exponents."""
    x = x.to(torch.result_type(x, exponent))
    made = torch.ones_like(x)
    while exponent > 0:
        made = made * x if exponent % 2 else made
        exponent //= 2
        x = x * x if exponent else x
    return made


def of_number(x: Any, exponent: Tensor) -> Any:
    kind = torch.result_type(exponent, x)
    if kind.is_floating_point or kind.is_complex:
        return NotImplemented
    return by_tensor(torch.full_like(exponent, x, dtype=kind), exponent)


def by_tensor(x: Tensor, exponent: Tensor) -> Any:
    """Return powers of integers by squares, one for each bit of the exponents. Of a negative exponent it is 0, unless x
    is 1 or -1."""
    kind = torch.result_type(x, exponent)
    if kind.is_floating_point or kind.is_complex or kind == torch.bool:
        return NotImplemented
    x, exponent = torch.broadcast_tensors(x.to(kind), exponent.to(kind))
    one = torch.ones_like(x)
    square, left, made = x, exponent, one
    for _ in range(torch.iinfo(kind).bits):
        made = torch.where(left % 2 != 0, made * square, made)
        square, left = square * square, torch.div(left, 2, rounding_mode="floor")
    if not kind.is_signed:
        return made
    sign = torch.where(exponent % 2 != 0, x, one)
    return torch.where(exponent >= 0, made, torch.where(x * x == 1, sign, torch.zeros_like(x)))
