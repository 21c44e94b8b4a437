"""Covariances and correlations without checks of values, as ATen computes them (native/Correlation.cpp)."""

from __future__ import annotations

import torch
from torch import Tensor


def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Return the covariances of the rows of a matrix, or the variance of a vector."""
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    rows = rows if rows.is_floating_point() else rows.to(torch.get_default_dtype())
    if fweights is None and aweights is None:
        centred = rows - rows.mean(1, True)
        count = torch.ones_like(rows[0]).sum()  # a size, which torch takes for positive, would lose its bound
        return (centred @ centred.t() / (count - correction).clamp(min=0)).squeeze()
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    assert weights is not None
    total = weights.sum()
    lost = correction if aweights is None else correction * (weights * aweights).sum() / total
    centred = rows - (rows * weights).sum(1, True) / total
    return (centred * weights @ centred.t() / (total - lost).clamp(min=0)).squeeze()


def corrcoef(x: Tensor) -> Tensor:
    """Return the correlations of the rows of a matrix; 1 for a vector."""
    covariances = cov(x)
    if covariances.dim() == 0:
        return covariances / covariances
    deviations = covariances.diagonal().sqrt()
    return (covariances / deviations[:, None] / deviations[None]).clamp(-1, 1)
