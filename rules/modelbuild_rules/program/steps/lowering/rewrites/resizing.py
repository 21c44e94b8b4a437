"""Bicubic interpolation with antialiasing as products with matrices of weights, for rows and for columns.

The weights are those of PyTorch: a cubic filter (a = -0.5), as wide as the scale if the picture shrinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


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
