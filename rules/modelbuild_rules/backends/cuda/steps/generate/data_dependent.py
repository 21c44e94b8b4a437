"""Decompose operators whose sizes depend on values. The GPU counts, and the library's host code reads the count."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from modelbuild_rules.backend_api.steps.shapes import upper

_ROW = 1024


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
