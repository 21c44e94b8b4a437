"""Division of floating-point tensors as eager mode computes it."""

from __future__ import annotations

import torch
from torch import Tensor


def floor_quotient(x: Tensor, y: Tensor) -> Tensor:
    """Return x // y of tensors of one floating-point type, of at least float32, as eager mode computes it."""
    quotient, rest = x / y, torch.fmod(x, y)
    whole = (x - rest) / y
    whole = torch.where(is_opposite(rest, y), whole - 1, whole)
    rounded = torch.floor(whole)
    rounded = torch.where(whole - rounded > 0.5, rounded + 1, rounded)
    rounded = torch.where(whole != 0, rounded, quotient * 0)  # with the sign of the quotient
    return torch.where(y == 0, quotient, rounded)


def is_opposite(rest: Tensor, y: Tensor) -> Tensor:
    """Return where the remainder of a division is not 0 and has another sign than the divisor."""
    return (rest != 0) & ((y < 0) != (rest < 0))
