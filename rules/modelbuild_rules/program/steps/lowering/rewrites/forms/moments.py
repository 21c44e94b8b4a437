"""Forms of means and variances. ExecuTorch 1.5.1 computes a variance as the difference of two means, which loses the
digits of numbers with a great mean, and computes variances of float16 and bfloat16 in these types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _precise(x: Tensor) -> Any:
    return torch.promote_types(x.dtype, torch.float32)


def _rows(x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows of a matrix with mean 0 and variance 1, their means, and the reciprocals of their deviations.
    float32 has a kernel of modelbuild."""
    if x.dtype == torch.float32:
        made: tuple[Tensor, Tensor, Tensor] = aten.native_layer_norm.default(x, [x.shape[1]], None, None, eps)
        return made
    mean = x.mean(1, True)
    centered = x - mean
    reciprocal = torch.rsqrt((centered * centered).mean(1, True) + eps)
    return centered * reciprocal, mean, reciprocal


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor:
    x = x if weight is None else x * weight.to(x.dtype).reshape(shape)
    return x if bias is None else x + bias.to(x.dtype).reshape(shape)


def group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: Any, c: Any, pixels: Any, groups: int, eps: float
) -> Any:
    """Return numbers whose groups of channels have mean 0 and variance 1, and both moments of each group."""
    made, *moments = _rows(x.to(_precise(x)).reshape(n * groups, c // groups * pixels), eps)
    made = _scaled(made.reshape(x.shape), weight, bias, [c, *[1] * (x.dim() - 2)])
    return made.to(x.dtype), *(each.reshape(n, groups).to(x.dtype) for each in moments)


def batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> Any:
    """Return numbers whose channels have mean 0 and variance 1, and both moments of each channel. Eager mode rounds the
    moments to the type of x before it uses them."""
    channels_first = x.to(_precise(x)).transpose(0, 1)
    rows = channels_first.reshape(x.shape[1], math.prod(x.shape) // x.shape[1])
    made, mean, reciprocal = _rows(rows, eps)
    moments = mean.to(x.dtype), reciprocal.to(x.dtype)
    if x.dtype != rows.dtype:
        made = (rows - moments[0]) * moments[1]
    made = _scaled(made.reshape(channels_first.shape).transpose(0, 1), weight, bias, [-1, *[1] * (x.dim() - 2)])
    return made.to(x.dtype), *(each.flatten() for each in moments)


def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """Return a normalization, in float32 if x is of float16 or bfloat16. float32 has a kernel of modelbuild."""
    if x.dtype == torch.float32:
        return NotImplemented
    outer = x.shape[: x.dim() - len(shape)]
    made, *moments = _rows(x.to(_precise(x)).reshape(math.prod(outer), math.prod(shape)), eps)
    made = _scaled(made.reshape(x.shape), weight, bias, shape).to(x.dtype)
    return made, *(each.reshape([*outer, *[1] * len(shape)]) for each in moments)


def of_variance(function: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """Return the form of a function of a variance, which is computed in a more precise type, as in eager mode."""

    def computed(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        if x.dtype == torch.float64 or x.is_complex():
            return NotImplemented
        precise = torch.float64 if x.dtype == torch.float32 else torch.float32
        variance = aten.var.correction(x.to(precise), dim, correction=correction, keepdim=keepdim)
        return function(variance).to(x.dtype)

    return computed


def variance_and_mean(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    variance = aten.var.correction(x, dim, correction=correction, keepdim=keepdim)
    return variance, x.mean(dim, keepdim) if dim else x.mean().reshape(variance.shape)
