"""Forms of operators that read or write at indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

_REDUCTIONS = {"add": "sum", "multiply": "prod"}


def _scatter(x: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Any:
    return aten.scatter_reduce.two(x, dim, index, src, _REDUCTIONS[reduce])


def _scatter_number(x: Tensor, dim: int, index: Tensor, value: Any, *, reduce: str) -> Any:
    source = torch.full_like(index, value, dtype=x.dtype)
    return aten.scatter_reduce.two(x, dim, index, source, _REDUCTIONS[reduce])


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    values = source.reshape(-1)
    return x.reshape(-1).index_put((index.reshape(-1),), values, accumulate).reshape(x.shape)


def _nonzero(x: Tensor, *, size: int, fill_value: int = -1) -> Any:
    flat = (x.reshape(-1) != 0).to(torch.int64)
    place = torch.cumsum(flat, 0) - 1
    place = torch.where((flat != 0) & (place < size), place, torch.full_like(place, size))
    numbers = torch.arange(flat.shape[0], device=x.device)
    found = torch.full((size + 1,), -1, dtype=torch.int64, device=x.device).scatter(0, place, numbers)[:size]
    steps = [math.prod(x.shape[dim + 1 :]) for dim in range(x.dim())]
    columns = [
        torch.div(found, max(step, 1), rounding_mode="floor").remainder(max(count, 1))
        for step, count in zip(steps, x.shape, strict=True)
    ]
    rows = torch.stack(columns, 1) if columns else found.new_zeros((size, 0))
    return torch.where(found.unsqueeze(1) < 0, torch.full_like(rows, fill_value), rows)


def _with_diagonal(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2:]
    first = -offset * columns if offset < 0 else offset
    places = torch.arange(src.shape[-1], device=x.device) * (columns + 1) + first
    made = moved.flatten(-2).scatter(-1, places.expand(src.shape), src.to(x.dtype))
    return made.unflatten(-1, (rows, columns)).movedim((-2, -1), (dim1, dim2))


def _with_strided(
    x: Tensor, src: Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Any:
    if not x.is_contiguous() or x.storage_offset() != 0:
        raise NotImplementedError("of a tensor that is not row-major")
    places = torch.full((), storage_offset or 0, dtype=torch.int64, device=x.device)
    for length, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(length, device=x.device) * step
    return x.flatten().scatter(0, places.flatten(), src.expand(size).flatten().to(x.dtype)).reshape(x.shape)


def _empty(size: Sequence[Any], order: Sequence[int], *, dtype: Any = None, **how: Any) -> Any:
    """Return zeros, because any values are right."""
    return torch.zeros(size, dtype=dtype)


FORMS: Mapping[Any, Callable[..., Any]] = {
    aten.as_strided_scatter.default: _with_strided,
    aten.diagonal_scatter.default: _with_diagonal,
    aten.empty_permuted.default: _empty,
    aten.nonzero_static.default: _nonzero,
    aten.put.default: _put,
    aten.scatter.reduce: _scatter,
    aten.scatter.value_reduce: _scatter_number,
}
