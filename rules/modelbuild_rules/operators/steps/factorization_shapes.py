"""The shapes of factorizations and of solutions for which torch has no shape function."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


@cache
def register() -> None:
    """Register the shape functions in this process, with which torch can export the operators."""
    torch.library.register_fake("aten::geqrf", _geqrf)
    torch.library.register_fake("aten::linalg_lstsq", _lstsq)


def _geqrf(x: Tensor) -> tuple[Tensor, Tensor]:
    *batch, rows, columns = x.shape
    return x.new_empty(*batch, columns, rows).mT, x.new_empty(*batch, torch.sym_min(rows, columns))


def _lstsq(
    x: Tensor, y: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Residuals depend on the ranks in eager mode: only full rank has residuals."""
    *batch, rows, columns = x.shape
    vectors = y.dim() == 1 or (y.dim() == x.dim() - 1 and y.shape == x.shape[:-1])
    right = [] if vectors else [y.shape[-1]]
    sizes = torch.broadcast_shapes(tuple(batch), y.shape[: -1 if vectors else -2])
    values = [*batch, torch.sym_min(rows, columns)] if driver in ("gelss", "gelsd") else [0]
    residuals = [*sizes, *(right or [1])] if rows > columns and driver not in (None, "gelsy") else [0]
    return (
        x.new_empty(*sizes, columns, *right),
        x.new_empty(residuals),
        x.new_empty([0] if driver == "gels" else batch, dtype=torch.int64),
        x.new_empty(values),
    )
