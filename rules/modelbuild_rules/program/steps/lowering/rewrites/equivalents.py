"""Replace operators without kernels with equivalent operators that have kernels.

| operator | becomes |
| --- | --- |
| index_reduce | scatter_reduce, with its index repeated along the other dimensions |
| searchsorted and bucketize of a number | the same of a tensor |
| searchsorted and bucketize of two types | the same of one type, which holds both |
| interpolation with antialiasing | weighted means of windows |
| linear interpolation in one or three dimensions | sums of products of the values at corners |
| the questions of `torch._check` whether all or some values are true | `any` |
| inverses, solutions and factors that check, also of tensors | without the check: infinities or NaN if singular |
| covariances and correlations | the same without checks of values |
| roll, which executorch makes a division by a size, perhaps 0 | slices in another order; of unknown sizes, an index |
| index_select of a dimension that may be 0, which its kernel refuses | an index |
| a row, read or written, at an index that depends on values: `x[k]` | index_select, index_put |
| rrelu in evaluation mode | leaky_relu |
| narrow_copy, whose kernel takes no negative dimension | a slice |
| alias, such as a slice of everything | its tensor |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from modelbuild_rules.backend_api.steps.resizing import (
    bicubic_antialiased,
    bilinear_antialiased,
    linear,
    of_sizes_or_factors,
)
from modelbuild_rules.backend_api.steps.shapes import may_be_zero
from modelbuild_rules.program.steps.lowering.rewrites.decomposition import all_nodes, decomposed

aten = torch.ops.aten


def has_equivalents(program: ExportedProgram) -> bool:
    """Return whether a program has operators of this table."""
    return any(map(_concerned, all_nodes(program.graph_module)))


def with_equivalents(program: ExportedProgram) -> ExportedProgram:
    """Return an equivalent program without operators of this table."""
    return decomposed(program, _EQUIVALENTS)


def _concerned(node: torch.fx.Node) -> bool:
    if node.target is aten.index_select.default:
        sizes = node.args[0].meta["val"].shape
        return bool(sizes) and may_be_zero(sizes[node.args[1]])
    if node.target in (aten.select.int, aten.select_scatter.default):
        return isinstance(node.args[-1], torch.fx.Node) and has_free_unbacked_symbols(node.args[-1].meta["val"])
    if node.target in (aten.searchsorted.Tensor, aten.bucketize.Tensor):
        one, other = (each.meta["val"] for each in node.args[:2])
        return bool(one.dtype != other.dtype)
    return node.target in _EQUIVALENTS


def _index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    shape = [1] * source.dim()
    if shape:
        shape[dim] = index.numel()
    repeated = index.to(torch.int64).reshape(shape).expand(source.shape)
    return aten.scatter_reduce.two(x, dim, repeated, source, reduce, include_self=include_self)


def _searchsorted_number(
    sequence: Tensor,
    number: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    sequence, values = _of_one_type(sequence, number)
    how = {"out_int32": out_int32, "right": right, "side": side, "sorter": sorter}
    return aten.searchsorted.Tensor(sequence, values, **how)


def _searchsorted(sequence: Tensor, values: Tensor, **how: Any) -> Any:
    if sequence.dtype == values.dtype:
        return NotImplemented
    return aten.searchsorted.Tensor(*_of_one_type(sequence, values), **how)


def _bucketize_number(number: Any, boundaries: Tensor, **how: Any) -> Tensor:
    boundaries, values = _of_one_type(boundaries, number)
    return aten.bucketize.Tensor(values, boundaries, **how)


def _bucketize(values: Tensor, boundaries: Tensor, **how: Any) -> Any:
    if boundaries.dtype == values.dtype:
        return NotImplemented
    boundaries, values = _of_one_type(boundaries, values)
    return aten.bucketize.Tensor(values, boundaries, **how)


def _of_one_type(sequence: Tensor, values: Any) -> tuple[Tensor, Tensor]:
    """Return a tensor, and another tensor or a number, in the type that eager mode compares them in."""
    if isinstance(values, Tensor):
        kind = torch.result_type(sequence, values)
        return sequence.to(kind), values.to(kind)
    kind = torch.result_type(sequence, 1.0 if isinstance(values, (float, torch.SymFloat)) else 1)
    return sequence.to(kind), torch.full((), values, dtype=kind)


def _alias(x: Tensor) -> Tensor:
    return x


def _narrow_copy(x: Tensor, dim: int, start: Any, length: Any) -> Tensor:
    return aten.slice_copy.Tensor(x, dim % x.dim(), start, start + length)


def _roll(x: Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Tensor:
    if not dims:
        return _roll(x.reshape(-1), shifts, (0,)).reshape(x.shape)
    rolled = x
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        if not isinstance(size, int) or not isinstance(shift, int):
            places = (torch.arange(size) - shift).remainder(torch.scalar_tensor(size, dtype=torch.int64))
            # The kernel of index_select refuses a size of 0.
            rolled = aten.index.Tensor(rolled, [*[None] * (dim % x.dim()), places])
        elif size and (last := shift % size):
            rolled = torch.cat((rolled.narrow(dim, size - last, last), rolled.narrow(dim, 0, size - last)), dim)
    return x.clone() if rolled is x else rolled


def _index_select(x: Tensor, dim: int, index: Tensor) -> Any:
    if not x.dim() or not may_be_zero(x.shape[dim]):
        return NotImplemented
    return aten.index.Tensor(x, [*[None] * (dim % x.dim()), index.reshape(-1)])


def _select(x: Tensor, dim: int, index: Any) -> Any:
    if not has_free_unbacked_symbols(index):
        return NotImplemented
    return aten.index_select.default(x, dim, _place(x, dim, index)).squeeze(dim)


def _select_scatter(x: Tensor, src: Tensor, dim: int, index: Any) -> Any:
    if not has_free_unbacked_symbols(index):
        return NotImplemented
    places = [*[None] * (dim % x.dim()), _place(x, dim, index)]
    return aten.index_put.default(x, places, src.unsqueeze(dim).to(x.dtype))


def _place(x: Tensor, dim: int, index: Any) -> Tensor:
    """Return an index, which may count from the end, as a tensor."""
    place = torch.full((1,), index, dtype=torch.int64, device=x.device)
    return torch.where(place < 0, place + x.shape[dim], place)


def _rrelu(x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Any:
    return NotImplemented if training else aten.leaky_relu.default(x, (lower + upper) / 2)


def _is_all_true(x: Tensor) -> Any:
    return aten.logical_not(aten.any.default(aten.logical_not(x)))


def _is_any_true(x: Tensor) -> Any:
    return aten.any.default(x)


def _inverse(x: Tensor) -> Any:
    return aten.linalg_inv_ex.default(x)[0]


def _solution(x: Tensor, y: Tensor, *, left: bool = True) -> Any:
    return aten._linalg_solve_ex.default(x, y, left=left)[0]


def _tensor_inverse(x: Tensor, ind: int = 2) -> Any:
    shape, other = x.shape[:ind], x.shape[ind:]
    return aten.linalg_inv_ex.default(x.reshape(math.prod(shape), -1))[0].reshape(*other, *shape)


def _tensor_solution(x: Tensor, y: Tensor, dims: Sequence[int] | None = None) -> Any:
    if dims is not None:
        x = x.movedim(tuple(dims), tuple(range(x.dim() - len(dims), x.dim())))
    found = aten._linalg_solve_ex.default(x.reshape(y.numel(), -1), y.reshape(-1))[0]
    return found.reshape(x.shape[y.dim() :])


def _cholesky(x: Tensor, *, upper: bool = False) -> Any:
    return aten.linalg_cholesky_ex.default(x, upper=upper)[0]


def _lu_factors(x: Tensor, *, pivot: bool = True) -> Any:
    return aten.linalg_lu_factor_ex.default(x, pivot=pivot)[:2]


def _cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Return the covariances of the rows of a matrix, or the variance of a vector, as ATen computes them
    (native/Correlation.cpp)."""
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    rows = rows if rows.is_floating_point() else rows.to(torch.get_default_dtype())
    if fweights is None and aweights is None:
        centred = rows - rows.mean(1, True)
        count = torch.ones_like(rows[0]).sum()  # a size, which torch assumes to be positive, would lose its bound
        return (centred @ centred.t() / (count - correction).clamp(min=0)).squeeze()
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    assert weights is not None
    total = weights.sum()
    lost = correction if aweights is None else correction * (weights * aweights).sum() / total
    centred = rows - (rows * weights).sum(1, True) / total
    return (centred * weights @ centred.t() / (total - lost).clamp(min=0)).squeeze()


def _corrcoef(x: Tensor) -> Tensor:
    """Return the correlations of the rows of a matrix; 1 for a vector."""
    covariances = _cov(x)
    if covariances.dim() == 0:
        return covariances / covariances
    deviations = covariances.diagonal().sqrt()
    return (covariances / deviations[:, None] / deviations[None]).clamp(-1, 1)


_EQUIVALENTS: Mapping[Any, Callable[..., Any]] = {
    aten._is_all_true.default: _is_all_true,
    aten._is_any_true.default: _is_any_true,
    aten._upsample_bicubic2d_aa.default: bicubic_antialiased,
    aten._upsample_bicubic2d_aa.vec: of_sizes_or_factors(bicubic_antialiased),
    aten._upsample_bilinear2d_aa.default: bilinear_antialiased,
    aten._upsample_bilinear2d_aa.vec: of_sizes_or_factors(bilinear_antialiased),
    aten.alias.default: _alias,
    aten.bucketize.Scalar: _bucketize_number,
    aten.bucketize.Tensor: _bucketize,
    aten.corrcoef.default: _corrcoef,
    aten.cov.default: _cov,
    aten.index_reduce.default: _index_reduce,
    aten.index_select.default: _index_select,
    aten.inverse.default: _inverse,
    aten.linalg_cholesky.default: _cholesky,
    aten.linalg_inv.default: _inverse,
    aten.linalg_lu_factor.default: _lu_factors,
    aten.linalg_solve.default: _solution,
    aten.linalg_tensorinv.default: _tensor_inverse,
    aten.linalg_tensorsolve.default: _tensor_solution,
    aten.narrow_copy.default: _narrow_copy,
    aten.roll.default: _roll,
    aten.rrelu.default: _rrelu,
    aten.searchsorted.Scalar: _searchsorted_number,
    aten.searchsorted.Tensor: _searchsorted,
    aten.select.int: _select,
    aten.select_scatter.default: _select_scatter,
    aten.upsample_linear1d.default: linear,
    aten.upsample_linear1d.vec: of_sizes_or_factors(linear),
    aten.upsample_trilinear3d.default: linear,
    aten.upsample_trilinear3d.vec: of_sizes_or_factors(linear),
}
