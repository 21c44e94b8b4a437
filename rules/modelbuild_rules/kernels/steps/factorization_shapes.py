"""The shapes of factorizations for which torch has no shape function."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


@cache
def register() -> None:
    """Register the shape functions in this process, with which torch can export the operators."""
    torch.library.register_fake("aten::geqrf", _geqrf)


def _geqrf(x: Tensor) -> tuple[Tensor, Tensor]:
    *batch, rows, columns = x.shape
    return x.new_empty(*batch, columns, rows).mT, x.new_empty(*batch, torch.sym_min(rows, columns))
