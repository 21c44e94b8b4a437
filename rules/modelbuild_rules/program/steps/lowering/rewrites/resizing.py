"""Interpolation by operators that have kernels, as eager mode computes it on a CPU.

Bicubic interpolation with antialiasing becomes products with matrices of weights, for rows and for columns. The weights
are those of PyTorch: a cubic filter (a = -0.5), as wide as the scale if the picture shrinks.

Linear interpolation becomes sums of products of the values at corners. Torch's own decomposition computes
a + (b - a) * share, which is NaN where a and b are the same infinity, and resizes axes that keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true


def bicubic(
    x: Tensor, size: Sequence[Any], align_corners: bool, by_rows: float | None = None, by_columns: float | None = None
) -> Any:
    """Return resized pictures; NotImplemented for corners that are aligned, and for types other than floating-point
    ones."""
    if align_corners or not x.is_floating_point():
        return NotImplemented
    rows = _weights(x, x.shape[-2], size[0], by_rows)
    columns = _weights(x, x.shape[-1], size[1], by_columns)
    return torch.matmul(torch.matmul(rows, x), columns.t())


def bicubic_of_sizes_or_factors(
    x: Tensor, size: Sequence[Any] | None, align_corners: bool, factors: Sequence[float] | None
) -> Any:
    """Return resized pictures, whose sizes are given, or result from factors."""
    if size is None:
        size = [int(each * factor) for each, factor in zip(x.shape[-2:], factors or (), strict=True)]
        return bicubic(x, size, align_corners, *(factors or ()))
    return bicubic(x, size, align_corners)


def linear(x: Tensor, sizes: Sequence[Any], align_corners: bool, *factors: float | None) -> Any:
    """Return an upsample_linear1d, upsample_bilinear2d or upsample_trilinear3d; NotImplemented for types other than
    floating-point ones."""
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
        if align_corners:
            place = place * ((given - 1) / (wanted - 1) if wanted > 1 else 0)
        else:
            scale = given / wanted if factor is None or factor <= 0 else 1 / factor
            place = ((place + 0.5) * scale - 0.5).clamp(min=0)
        low = place.to(torch.int64).clamp(max=given - 1)
        ends.append([low, (low + 1).clamp(max=given - 1)])
        shares.append((place - low).clamp(0, 1))
    if not shares:
        return x.clone()
    corners = [torch.ops.aten._unsafe_index.Tensor(x, [None, None, *each]).to(wide) for each in product(*ends)]
    for share in reversed(shares):
        pairs = zip(corners[::2], corners[1::2], strict=True)
        corners = [low * (1 - share) + high * share for low, high in pairs]
    return corners[0].to(x.dtype)


def linear_of_sizes_or_factors(
    x: Tensor, sizes: Sequence[Any] | None, align_corners: bool, factors: Sequence[float] | None
) -> Any:
    """Return resized tensors, whose sizes are given, or result from factors."""
    if sizes is None:
        sizes = [torch.sym_int(each * factor) for each, factor in zip(x.shape[2:], factors or (), strict=True)]
    return linear(x, sizes, align_corners, *(factors or ()))


def _weights(x: Tensor, given: Any, wanted: Any, factor: float | None) -> Tensor:
    """Return the weight of each given row, for each wanted one."""
    scale = given / wanted if factor is None else 1 / factor
    centres = (torch.arange(wanted, dtype=torch.float32, device=x.device) + 0.5) * scale
    places = torch.arange(given, dtype=torch.float32, device=x.device) + 0.5
    away = (places - centres.unsqueeze(1)).abs() / torch.sym_max(scale, 1.0)
    near = (1.5 * away - 2.5) * away * away + 1
    far = ((-0.5 * away + 2.5) * away - 4) * away + 2
    weights = torch.where(away < 1, near, torch.where(away < 2, far, torch.zeros_like(away)))
    return (weights / weights.sum(1, keepdim=True)).to(x.dtype)
