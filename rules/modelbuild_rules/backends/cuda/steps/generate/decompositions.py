"""Decompose operators that Inductor leaves to libtorch, whose kernels the CUDA delegate lacks, into operators that it
compiles. A decomposition returns NotImplemented for arguments that it does not cover.

Uses private parts of torch, which target_gpu.py lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from modelbuild_rules.backend_api.steps.aten import aten_operator
from modelbuild_rules.backend_api.steps.division import floor_quotient, is_opposite
from modelbuild_rules.backend_api.steps.resizing import linear, of_sizes_or_factors
from modelbuild_rules.backends.cuda.steps.generate import convolutions, data_dependent
from modelbuild_rules.backends.cuda.steps.generate.detection import detection_decompositions

aten = torch.ops.aten


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return the decompositions, by operator."""
    return {**_decompositions(), **detection_decompositions()}


@cache
def _decompositions() -> Mapping[Any, Callable[..., Any]]:
    return {
        aten.convolution.default: convolutions.decomposed,
        aten.nonzero.default: data_dependent.nonzero,
        aten._unique2.default: data_dependent.distinct,
        aten.unique_consecutive.default: data_dependent.distinct_consecutive,
        aten.upsample_nearest2d.vec: decomposition_table[aten.upsample_nearest2d.vec],
        aten.scatter_reduce.two: scatter_mean,
        aten.histc.default: histogram,
        aten._embedding_bag.default: embedding_bag,
        aten._embedding_bag_forward_only.default: embedding_bag,
        aten.topk.default: topk,
        aten.mm.default: product,
        aten.bmm.default: product,
        aten._batch_norm_with_update_functional.default: batch_norm_with_update,
        aten._batch_norm_no_update.default: batch_norm_without_update,
        aten.div.Tensor_mode: rounded_quotient,
        aten.div.Scalar_mode: rounded_quotient,
        aten.floor_divide.default: floor_divided,
        aten.floor_divide.Scalar: floor_divided,
        aten.remainder.Tensor: remainder,
        aten.remainder.Scalar: remainder,
        aten.fmod.Tensor: _kept,
        aten.fmod.Scalar: _kept,
        aten.addmm.default: added_product,
        aten.baddbmm.default: added_product,
        aten.upsample_bilinear2d.default: linear,
        aten.upsample_bilinear2d.vec: of_sizes_or_factors(linear),
    }


def _kept(*_: Any, **__: Any) -> Any:
    """Leave an operator to Inductor, which has an exact function for it."""
    return NotImplemented


def _of_floats(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Any], Any]:
    """Return a decomposition for floats alone, which calls a function of tensors of one type, of at least float32."""

    def decomposed(x: Tensor, y: Any) -> Any:
        dtype = torch.result_type(x, y)
        if not dtype.is_floating_point:
            return NotImplemented
        wide = torch.promote_types(dtype, torch.float32)
        other = y.to(wide) if isinstance(y, Tensor) else torch.full((), y, dtype=wide, device=x.device)
        return function(x.to(wide), other).to(dtype)

    return decomposed


def _remainder(x: Tensor, y: Tensor) -> Tensor:
    """Return aten.remainder by fmod; Triton's own takes a product of a rounded quotient from x."""
    rest = torch.fmod(x, y)
    return torch.where(is_opposite(rest, y), rest + y, rest)


remainder = _of_floats(_remainder)
floor_divided = _of_floats(floor_quotient)


def rounded_quotient(x: Tensor, y: Any, *, rounding_mode: str | None = None) -> Any:
    """Return aten.div of floats with a rounding mode of "floor". Torch's decomposition converts integers to float64,
    and Inductor first rounds 1 / 0.1 to 10. Inductor divides integers exactly."""
    return floor_divided(x, y) if rounding_mode == "floor" else NotImplemented


def product(x: Tensor, y: Tensor) -> Any:
    """Return aten.mm or aten.bmm of integers, or of an empty tensor, as sums: Inductor's templates have neither."""
    if x.is_floating_point() and not any(isinstance(size, int) and size == 0 for size in (*x.shape, *y.shape)):
        return NotImplemented
    return (x.unsqueeze(-1) * y.unsqueeze(-3)).sum(-2, dtype=x.dtype)


def added_product(bias: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return aten.addmm or aten.baddbmm of integers, or of an empty tensor. A bias times 0 is 0, even NaN."""
    made = product(x, y)
    if made is NotImplemented:
        return made
    made = made if alpha == 1 else made * alpha
    return made if beta == 0 else made + (bias if beta == 1 else bias * beta)


def batch_norm_with_update(
    x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """Return aten._batch_norm_with_update_functional. Torch's decomposition asks a GPU which library to use."""
    made, *saved = aten._native_batch_norm_legit_functional.default(
        x, weight, bias, mean, variance, True, momentum, eps
    )
    return made, *saved[:2], x.new_empty(0, dtype=torch.uint8), *saved[2:]


def batch_norm_without_update(
    x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """Return aten._batch_norm_no_update."""
    made = aten.native_batch_norm.default(x, weight, bias, mean, variance, False, momentum, eps)
    return *made, x.new_empty(0, dtype=torch.uint8)


def reduces(node: torch.fx.Node) -> bool:
    """Return whether a node is not a scatter_reduce, or is a scatter_reduce that becomes sums by index."""
    if aten_operator(node.target) is not aten.scatter_reduce.two:
        return True
    return (node.args[4] if len(node.args) > 4 else node.kwargs["reduce"]) in ("sum", "mean")


def reads_size(node: torch.fx.Node) -> bool:
    """Return whether a node does not read a number from the GPU, or reads one that can be a size."""
    if aten_operator(node.target) is not aten._local_scalar_dense.default:
        return True
    return bool(node.all_input_nodes[0].meta["val"].dtype == torch.int64)


def sorts(node: torch.fx.Node) -> bool:
    """Return whether a node is a topk to replace with a sort.

    ExecuTorch's kernel for topk finds one value after another and has code for each: with a thousand values, LLVM needs
    more than ten minutes. The kernel computes in float32 and has a block of threads for a row, whose length it must
    know.
    """
    if aten_operator(node.target) is not aten.topk.default:
        return False
    x: Tensor = node.all_input_nodes[0].meta["val"]
    dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", -1)
    count, row = node.args[1], x.shape[dim] if x.dim() else 1
    known = isinstance(count, int) and isinstance(row, int)
    return not known or count > _FEW or row > _ROW or x.dtype in (torch.int32, torch.int64)


_FEW, _ROW = 64, 4096


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """Return aten.topk by a stable sort."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    values, places = torch.sort(x.movedim(dim, -1), dim=-1, descending=largest, stable=True)
    return values[..., :k].movedim(-1, dim), places[..., :k].movedim(-1, dim)


def scatter_mean(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Any:
    """Return aten.scatter_reduce for a mean: a sum divided by a number of terms."""
    if reduce != "mean":
        return NotImplemented
    own = torch.full_like(x, int(include_self))
    count = own.scatter_add(dim, index, torch.ones_like(src))
    start = x if include_self else torch.where(count > 0, torch.zeros_like(x), x)
    total, terms = start.scatter_add(dim, index, src), count.clamp(min=1)
    return total / terms if x.is_floating_point() else torch.div(total, terms, rounding_mode="floor")


def histogram(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Return aten.histc. The last bin includes its upper edge."""
    x = x.flatten()
    low, high = (torch.full((), float(each), dtype=x.dtype, device=x.device) for each in (min, max))
    if min == max:
        low, high = x.amin(), x.amax()
        low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    edges = low + (high - low) / bins * torch.arange(bins + 1, device=x.device, dtype=x.dtype)
    inside = (x >= low) & (x <= high)
    place = (torch.searchsorted(edges, x, right=True) - 1).clamp(0, bins - 1)
    return x.new_zeros(bins).scatter_add(0, place, inside.to(x.dtype))


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Return aten._embedding_bag for sums (mode 0), means (mode 1) and maxima (mode 2)."""
    bags = offsets.shape[0] - int(include_last_offset)
    positions = torch.arange(indices.shape[0], device=indices.device, dtype=offsets.dtype)
    bag = torch.searchsorted(offsets[:bags], positions, right=True) - 1
    if mode == 2:
        inside = (bag == torch.arange(bags, device=bag.device).unsqueeze(1)) & (indices != padding_idx)
        rows = torch.where(inside.unsqueeze(2), weight.index_select(0, indices), -torch.inf)
        greatest = torch.where(inside.any(1, keepdim=True), rows.amax(1), 0)
        return greatest, bag, inside.sum(1), torch.zeros_like(greatest, dtype=bag.dtype)
    used = (indices != padding_idx).to(weight.dtype)
    share = used if per_sample_weights is None else used * per_sample_weights
    rows = weight.index_select(0, indices) * share.unsqueeze(1)
    total = weight.new_zeros(bags, weight.shape[1]).scatter_add(0, bag.unsqueeze(1).expand_as(rows), rows)
    count = weight.new_zeros(bags).scatter_add(0, bag, used)
    made = total / count.clamp(min=1).unsqueeze(1) if mode == 1 else total
    return made, bag, count.to(torch.int64), torch.zeros_like(bag[:bags])
