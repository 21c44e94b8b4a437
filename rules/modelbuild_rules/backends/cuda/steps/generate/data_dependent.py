"""Decompose operators whose sizes depend on values. The GPU counts, and the library's host code reads the count."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from modelbuild_rules.backend_api.steps.shapes import upper

_ROW = 1024

_SORTED = {torch.int64: torch.int64, torch.float32: torch.float32, torch.float16: torch.float32}
"""Types in which ExecuTorch's kernel sorts values of a type; int32 for other integers and truth values."""


def nonzero(x: Tensor) -> Any:
    """Return aten.nonzero of a vector, int64 [found, 1]. A running sum gives each index its place."""
    if x.dim() != 1:
        return NotImplemented
    (size,) = x.shape
    mask = x != 0
    count = mask.sum().item()
    torch._check(count >= 0)
    torch._check(count <= size)
    places = torch.where(mask, _running_sum(mask) - 1, size)
    found = torch.zeros(size + 1, dtype=torch.int64, device=x.device)
    found = found.scatter(0, places, torch.arange(size, device=x.device))
    return found.narrow(0, 0, count).unsqueeze(1)


def distinct(x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """Return aten._unique2: the different values, in order, each value's place among them, and their numbers. A NaN
    differs from all others."""
    flat = x.reshape(-1)
    wide = torch.float32 if x.dtype is torch.bfloat16 else _SORTED.get(x.dtype, torch.int32)
    values, order = torch.sort(flat.to(wide), stable=True)
    found, group = _runs(values)
    inverse = torch.zeros_like(group).scatter(0, order, group).reshape(x.shape) if return_inverse else None
    return _with_numbers(found.to(x.dtype), group, inverse, return_counts)


def distinct_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return aten.unique_consecutive without a dimension: the first values of runs of equal values."""
    if dim is not None:
        return NotImplemented
    found, group = _runs(x.reshape(-1))
    return _with_numbers(found, group, group.reshape(x.shape) if return_inverse else None, return_counts)


def _runs(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first value of each run of equal values in a vector, and the number of each value's run."""
    places = torch.arange(values.shape[0], device=values.device)
    first = (values != values.index_select(0, (places - 1).clamp(min=0))) | (places == 0)
    found = values.index_select(0, nonzero(first).squeeze(1))
    return found, _running_sum(first) - 1


def _with_numbers(found: Tensor, group: Tensor, inverse: Tensor | None, return_counts: bool) -> tuple[Tensor, ...]:
    """Return the three results; an empty tensor stands for one that nobody asked for."""
    none = group.new_empty(0)
    counts = group.new_zeros(found.shape[0]).scatter_add(0, group, torch.ones_like(group)) if return_counts else none
    return found, none if inverse is None else inverse, counts


def _running_sum(mask: Tensor) -> Tensor:
    """Return the cumulative sum of a vector of booleans. Long ones are added in rows: Inductor has a block of threads
    for each row."""
    (size,) = mask.shape
    most = upper(size)
    if most is not None and most <= 4 * _ROW:
        return torch.cumsum(mask, 0)
    rows = torch.nn.functional.pad(mask.to(torch.int64), (0, -size % _ROW)).reshape(-1, _ROW)
    totals = rows.sum(1)
    before = torch.cumsum(totals, 0) - totals
    return (torch.cumsum(rows, 1) + before.unsqueeze(1)).reshape(-1).narrow(0, 0, size)
