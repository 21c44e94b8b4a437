"""Forms of products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


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


FORMS: Mapping[Any, Callable[..., Any]] = {
    aten._trilinear.default: _trilinear,
    aten.addbmm.default: _addbmm,
}
