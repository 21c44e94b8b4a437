"""Forms of functions of matrices, by eigenvalues, singular values or reflections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _square_root(x: Tensor) -> Any:
    values, vectors = torch.linalg.eigh(x)
    return (vectors * values.sqrt().unsqueeze(-2)) @ vectors.mT


def _polar(x: Tensor) -> Any:
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return u @ v, (v.mT * s.unsqueeze(-2)) @ v


def _pseudoinverse(x: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    if x.shape[-1] == 0 or x.shape[-2] == 0:
        return torch.zeros_like(x.mT)
    left, values, right = _decomposed(x, hermitian)
    sizes = values.abs()
    absolute = torch.zeros((), dtype=x.dtype) if atol is None else torch.as_tensor(atol, dtype=x.dtype)
    if rtol is None:
        relative = torch.where(
            absolute > 0, 0.0, torch.finfo(x.dtype).eps * torch.sym_max(x.shape[-2], x.shape[-1])
        ).to(x.dtype)
    else:
        relative = torch.as_tensor(rtol, dtype=x.dtype)
    largest = torch.maximum(sizes[..., :1], sizes[..., -1:])  # values are in order
    least = torch.maximum(absolute.unsqueeze(-1), relative.unsqueeze(-1) * largest)
    inverse = torch.where(sizes > least, values.reciprocal(), torch.zeros_like(values))
    return (right * inverse.unsqueeze(-2)) @ left.mT


def _product_of_reflections(x: Tensor, tau: Tensor) -> Any:
    ones = torch.eye(*x.shape[-2:], dtype=x.dtype).expand(x.shape).clone()
    return torch.ormqr(x[..., : tau.shape[-1]], tau, ones)


def _decomposed(x: Tensor, hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return factors: the columns of left and right singular vectors, or eigenvectors, and the values."""
    if hermitian:
        values, vectors = torch.linalg.eigh(x)
        return vectors, values, vectors
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return u, s, v.mT


def _least_squares(x: Tensor, y: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Return the solution of least length. Residuals are computed for any rank."""
    rows, columns = x.shape[-2:]
    vectors = y.dim() == 1 or (y.dim() == x.dim() - 1 and y.shape == x.shape[:-1])
    b = y.unsqueeze(-1) if vectors else y
    left, values, right = _decomposed(x, False)
    rcond = torch.finfo(x.dtype).eps * torch.sym_max(rows, columns) if rcond is None else rcond
    inverse = values.reciprocal()
    if driver != "gels":
        kept = values > rcond * values[..., :1]
        inverse = torch.where(kept, inverse, torch.zeros_like(inverse))
    found = right @ (inverse.unsqueeze(-1) * (left.mT @ b))
    has_residuals = rows > columns and driver not in (None, "gelsy")
    return (
        found.squeeze(-1) if vectors else found,
        (x @ found - b).square().sum(-2) if has_residuals else x.new_zeros(0),
        torch.zeros(0, dtype=torch.int64) if driver == "gels" else kept.sum(-1),
        values if driver in ("gelss", "gelsd") else x.new_zeros(0),
    )


FORMS: Mapping[Any, Callable[..., Any]] = {
    aten.linalg_householder_product.default: _product_of_reflections,
    aten.linalg_lstsq.default: _least_squares,
    aten.linalg_matrix_sqrth.default: _square_root,
    aten.linalg_pinv.atol_rtol_tensor: _pseudoinverse,
    aten.linalg_polar.default: _polar,
}
