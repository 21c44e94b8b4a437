"""Forms of operators that combine or select many numbers: products, pooling and medians."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _adaptive_mean(x: Tensor, sizes: Sequence[int]) -> Any:
    """Return the means of boxes, one dimension after the other."""
    for dim, wanted in zip((-3, -2, -1), sizes, strict=True):
        size = x.shape[dim]
        if size % wanted == 0:
            x = x.unflatten(dim, (wanted, size // wanted)).mean(dim)
        else:
            ranges = [(part * size // wanted, -(-(part + 1) * size // wanted)) for part in range(wanted)]
            x = torch.cat([x.narrow(dim, begin, end - begin).mean(dim, True) for begin, end in ranges], dim)
    return x


def _addbmm(x: Tensor, one: Tensor, other: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = torch.mm(one.transpose(0, 1).flatten(1), other.flatten(0, 1))
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # x may be NaN
        return product.expand(torch.broadcast_shapes(x.shape, product.shape)).clone()
    return (x if beta == 1 else x * beta) + product


def _trilinear(
    one: Tensor,
    two: Tensor,
    three: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Any:
    rank = one.dim() + len(expand1)
    letters = [chr(ord("a") + dim) for dim in range(rank)]
    terms = ["".join(letters[dim] for dim in range(rank) if dim not in each) for each in (expand1, expand2, expand3)]
    result = "".join(letters[dim] for dim in range(rank) if dim not in sumdim)
    return torch.einsum(f"{','.join(terms)}->{result}", one, two, three)


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
    aten._adaptive_avg_pool3d.default: _adaptive_mean,
    aten._trilinear.default: _trilinear,
    aten.addbmm.default: _addbmm,
    aten.median.default: _median,
    aten.nanmedian.default: _nanmedian,
    aten.nanmedian.dim: _nanmedian_along,
}
