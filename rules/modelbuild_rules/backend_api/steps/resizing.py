"""Interpolation by operators that have kernels, as eager mode computes it on a CPU.

Interpolation with antialiasing becomes weighted means of windows, of rows and of columns. The weights are PyTorch's: a
triangle, or a cubic filter (a = -0.5), as wide as the scale if the picture shrinks. No value outside of a window is
multiplied with zero, because infinity times zero is NaN.

Linear interpolation becomes sums of products of the values at corners. Torch's own decomposition computes a + (b - a) *
share, which is NaN where a and b are the same infinity. Along an axis that keeps its size, the weights are 1 and 0, so
an infinity becomes NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true


def of_sizes_or_factors(resize: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that resizes a tensor to given sizes or by factors."""

    def resized(
        x: Tensor, sizes: Sequence[Any] | None, align_corners: bool, factors: Sequence[float] | None = None
    ) -> Any:
        if sizes is None:
            sizes = [torch.sym_int(each * factor) for each, factor in zip(x.shape[2:], factors or (), strict=True)]
        return resize(x, sizes, align_corners, *(factors or ()))

    return resized


def linear(x: Tensor, sizes: Sequence[Any], align_corners: bool, *factors: float | None) -> Any:
    """Return an upsample_linear1d, upsample_bilinear2d or upsample_trilinear3d; NotImplemented for types other than
    floating point."""
    if not x.is_floating_point():
        return NotImplemented
    wide = torch.promote_types(x.dtype, torch.float32)
    ends: list[Sequence[Tensor]] = []
    shares: list[Tensor] = []
    for axis, (given, wanted, factor) in enumerate(
        zip(x.shape[2:], sizes, factors or [None] * len(sizes), strict=True)
    ):
        shape = [wanted, *[1] * (len(sizes) - 1 - axis)]
        index = torch.arange(wanted, device=x.device).reshape(shape)
        if statically_known_true(given == wanted):
            ends.append([index])
            continue
        place = index.to(wide)
        scale = _scale(given, wanted, align_corners, factor)
        place = place * scale if align_corners else ((place + 0.5) * scale - 0.5).clamp(min=0)
        low = place.to(torch.int64).clamp(max=given - 1)
        ends.append([low, (low + 1).clamp(max=given - 1)])
        shares.append((place - low).clamp(0, 1))
    if not shares:
        return x + x * 0
    corners = [torch.ops.aten._unsafe_index.Tensor(x, [None, None, *each]).to(wide) for each in product(*ends)]
    if len(shares) < len(sizes):
        corners = [each + each * 0 for each in corners]
    for share in reversed(shares):
        pairs = zip(corners[::2], corners[1::2], strict=True)
        corners = [low * (1 - share) + high * share for low, high in pairs]
    return corners[0].to(x.dtype)


def _antialiased(
    weight: Callable[[Tensor], Tensor],
    radius: int,
    x: Tensor,
    sizes: Sequence[Any],
    align_corners: bool,
    by_rows: float | None = None,
    by_columns: float | None = None,
) -> Any:
    """Return an _upsample_bicubic2d_aa or _upsample_bilinear2d_aa; NotImplemented for types other than floating
    point."""
    if not x.is_floating_point():
        return NotImplemented
    made = x.to(torch.promote_types(x.dtype, torch.float32))
    for dim, factor in ((-1, by_columns), (-2, by_rows)):
        scale = _scale(x.shape[dim], sizes[dim], align_corners, factor)
        made = _windows(made, dim, sizes[dim], scale, weight, radius)
    return made.to(x.dtype)


def _scale(given: Any, wanted: Any, align_corners: bool, factor: float | None) -> Any:
    if align_corners:
        return (given - 1) / (wanted - 1) if wanted > 1 else 0.0
    return given / wanted if factor is None or factor <= 0 else 1 / factor


def _windows(x: Tensor, dim: int, wanted: Any, scale: Any, weight: Callable[[Tensor], Tensor], radius: int) -> Tensor:
    """Return the weighted means of windows along the last or the last but one dimension."""
    given, width = x.shape[dim], torch.sym_max(scale, 1.0)
    reach = radius * width
    centres = ((torch.arange(wanted, device=x.device).to(x.dtype) + 0.5) * scale).unsqueeze(1)
    first = (centres - reach + 0.5).to(torch.int64).clamp(min=0)
    places = first + torch.arange(2 * math.ceil(reach) + 1, device=x.device)
    inside = places < (centres + reach + 0.5).to(torch.int64).clamp(max=given)
    weights = torch.where(inside, weight(((places + 0.5 - centres) / width).abs()), 0.0)
    weights = weights / weights.sum(1, keepdim=True)
    values = x.index_select(dim, places.clamp(max=given - 1).flatten())
    values = values.unflatten(dim, places.shape)
    if dim == -2:
        inside, weights = inside.unsqueeze(-1), weights.unsqueeze(-1)
    return (torch.where(inside, values, 0.0) * weights).sum(dim)


def _cubic(away: Tensor) -> Tensor:
    near = (1.5 * away - 2.5) * away * away + 1
    far = ((-0.5 * away + 2.5) * away - 4) * away + 2
    return torch.where(away < 1, near, torch.where(away < 2, far, 0.0))


def _triangle(away: Tensor) -> Tensor:
    return (1 - away).clamp(min=0)


bicubic_antialiased = partial(_antialiased, _cubic, 2)
bilinear_antialiased = partial(_antialiased, _triangle, 1)
