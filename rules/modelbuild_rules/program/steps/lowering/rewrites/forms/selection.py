"""Forms of operators that select a number from many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _median(x: Tensor) -> Any:
    return aten.median.dim(x.reshape(-1), 0)[0]


def _nanmedian(x: Tensor) -> Any:
    return _nanmedian_along(x.reshape(-1), 0)[0]


def _nanmedian_along(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    values, indices = aten.sort.stable(x, stable=True, dim=dim)  # NaN last
    count = torch.sum(values == values, dim, keepdim=True)
    place = torch.div(count - 1, 2, rounding_mode="floor").clamp(min=0)
    found = values.gather(dim, place), indices.gather(dim, place)
    return found if keepdim else tuple(each.squeeze(dim) for each in found)


FORMS: Mapping[Any, Callable[..., Any]] = {
    aten.median.default: _median,
    aten.nanmedian.default: _nanmedian,
    aten.nanmedian.dim: _nanmedian_along,
}
