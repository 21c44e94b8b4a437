"""Forms of operators whose kernels in ExecuTorch 1.5.1 or modelbuild compute other values than eager mode for some
arguments, or fail. docs/reference/portable.md lists ExecuTorch's kernels. modelbuild's kernels lack types:
grid_sampler_3d float16 and bfloat16, scatter_reduce bool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

from modelbuild_rules.backend_api.steps.division import floor_quotient
from modelbuild_rules.backend_api.steps.shapes import may_be_zero
from modelbuild_rules.operators.steps import lowered_operators
from modelbuild_rules.program.steps.lowering.rewrites.forms import moments, powers

aten = torch.ops.aten
_SHORT = (torch.float16, torch.bfloat16)


def _floored(x: Tensor, y: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return the quotients of integers, rounded down, the remainders, and where rounding to 0 differs from that."""
    quotient = torch.div(x, y, rounding_mode="floor")
    rest = x - quotient * y
    return quotient, rest, (rest != 0) & ((x < 0) != (y < 0))


def _rounded(operator: Any, x: Tensor, y: Any) -> Any:
    """Return an operator of floating-point numbers: eager mode rounds a number to the type of float16 or bfloat16."""
    return NotImplemented if isinstance(y, Tensor) or x.dtype not in _SHORT else operator(x, x.new_full((), y))


def _remainder(x: Tensor, y: Any) -> Any:
    kind = torch.result_type(x, y)
    if kind.is_floating_point or kind.is_complex:
        return _rounded(aten.remainder.Tensor, x, y)
    return x - torch.div(x, y, rounding_mode="floor") * y


def _fmod(x: Tensor, y: Any) -> Any:
    kind = torch.result_type(x, y)
    if kind.is_floating_point:
        return _rounded(aten.fmod.Tensor, x, y)
    _, rest, negative = _floored(x.to(kind), y)
    return torch.where(negative, rest - y, rest)


def _integers(x: Tensor) -> Any:
    """Return rounded integers."""
    return NotImplemented if x.is_floating_point() else x.clone()


def _divided(x: Tensor, y: Any, *, rounding_mode: str | None = None) -> Any:
    kind = torch.result_type(x, y)
    if rounding_mode == "trunc" and not kind.is_floating_point:
        quotient, _, negative = _floored(x.to(kind), y)
        return quotient + negative.to(kind)
    if rounding_mode == "trunc" and kind in _SHORT:
        return torch.trunc(x.to(torch.float32) / y).to(kind)
    if rounding_mode != "floor" or not kind.is_floating_point or (not isinstance(y, Tensor) and y != 0):
        return NotImplemented
    precise = torch.promote_types(kind, torch.float32)
    x = x.to(precise)
    if not isinstance(y, Tensor):  # programs lose the sign of the number -0.0
        quotient = x / 0.0
        return (-quotient if math.copysign(1, y) < 0 else quotient).to(kind)
    return floor_quotient(x, y.to(precise)).to(kind)


def _padded(x: Tensor, pad: Sequence[Any], value: Any = 0) -> Any:
    if all(statically_known_true(each >= 0) for each in pad):
        return NotImplemented
    for dim, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True), 1):
        start, end = torch.sym_max(-before, 0), x.shape[-dim] - torch.sym_max(-after, 0)
        x = x.narrow(-dim, start, end - start)
    around = [torch.sym_max(each, 0) for each in pad]
    return aten.constant_pad_nd.default(x, around, value)


def _sign(x: Tensor) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


def _maxima(
    x: Tensor,
    kernel: Sequence[Any],
    stride: Sequence[Any] = (),
    padding: Sequence[Any] = (0,),
    dilation: Sequence[Any] = (1,),
    ceil: bool = False,
) -> Any:
    """Return a pool of images as a pool of volumes of one image."""
    if not x.is_floating_point():
        return NotImplemented
    given = ((1, kernel), (1, stride or kernel), (0, padding), (1, dilation))
    sizes = ([first, *(list(each) * (2 // len(each)))] for first, each in given)
    return tuple(each.squeeze(-3) for each in aten.max_pool3d_with_indices.default(x.unsqueeze(-3), *sizes, ceil))


def _gradients_of_maxima(grad: Tensor, x: Tensor, *window: Any) -> Any:
    *_, indices = window
    flat = torch.zeros_like(x).flatten(-2)
    return flat.scatter_add(-1, indices.flatten(-2), grad.flatten(-2)).unflatten(-1, x.shape[-2:])


def _log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Any:
    if x.dtype != torch.float64:
        return NotImplemented
    if x.dim() == 0:
        return x - x
    below = x - x.amax(dim, True)
    return below - torch.log(torch.exp(below).sum(dim, True))


def _converted(x: Tensor, *, non_blocking: bool = False, dim_order: Any = None, **how: Any) -> Any:
    return aten._to_copy.default(x, **how) if non_blocking else NotImplemented


def _sampled_image(x: Tensor, grid: Tensor, *how: Any) -> Any:
    lowered_operators.register()
    precise = torch.promote_types(x.dtype, torch.float32)
    return torch.ops.modelbuild.grid_sampler_2d.default(x.to(precise), grid.to(precise), *how).to(x.dtype)


def _sampled_volume(x: Tensor, grid: Tensor, *how: Any) -> Any:
    if x.dtype not in _SHORT:
        return NotImplemented
    return aten.grid_sampler_3d.default(x.to(torch.float32), grid.to(torch.float32), *how).to(x.dtype)


def _scattered(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, **how: Any) -> Any:
    if x.dtype != torch.bool:
        return NotImplemented
    return aten.scatter_reduce.two(x.to(torch.int64), dim, index, src.to(torch.int64), reduce, **how).to(torch.bool)


def _precisely(operator: Any, *corrections: Callable[..., Any]) -> Callable[..., Any]:
    """Return the form of an operator whose kernel adds numbers of float16 and bfloat16 in these types: the operator of
    float32. `corrections` are other forms, which come first."""

    def computed(*args: Any, **kwargs: Any) -> Any:
        for form in corrections:
            if (found := form(*args, **kwargs)) is not NotImplemented:
                return found
        tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        short = [each.dtype for each in tensors if each.dtype in _SHORT]
        if not short or kwargs.get("dtype") is not None:
            return NotImplemented
        args, kwargs = pytree.tree_map_only(
            Tensor, lambda each: each.to(torch.float32) if each.dtype in _SHORT else each, (args, kwargs)
        )
        return pytree.tree_map_only(Tensor, lambda each: each.to(short[0]), operator(*args, **kwargs))

    return computed


def _of_long_indices(operator: Any) -> Callable[..., Any]:
    """Return the form of an operator with an index as the third argument."""

    def indexed(x: Tensor, dim: int, index: Tensor, *args: Any, **how: Any) -> Any:
        return operator(x, dim, index.to(torch.int64), *args, **how) if index.dtype == torch.int32 else NotImplemented

    return indexed


def _product(operator: Any, x: int = 0) -> Callable[..., Any]:
    """Return the form of a product of two matrices, which are arguments from `x` on, whose depth may be 0."""

    def product(*args: Any, **how: Any) -> Any:
        one, other = args[x : x + 2]
        if not may_be_zero(one.shape[-1]):
            return NotImplemented
        column = one.new_zeros([*one.shape[:-1], 1])
        row = other.new_zeros([*other.shape[:-2], 1, other.shape[-1]])
        return operator(*args[:x], torch.cat([one, column], -1), torch.cat([other, row], -2), **how)

    return product


def _cumulative(x: Tensor, dim: int, *, dtype: Any = None) -> Any:
    """Return the sums of a tensor without dimensions."""
    return NotImplemented if x.dim() else x.to(dtype or _type_of_sum(x)).clone()


def _type_of_sum(x: Tensor) -> torch.dtype:
    return x.dtype if x.is_floating_point() else torch.int64


def _sum(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the sum of a tensor without dimensions, and sums of float64 and integers as sums along two dimensions: the
    kernel adds along one dimension in float32."""
    kind = dtype or _type_of_sum(x)
    if not x.dim():
        return x.to(kind).clone()
    if not dim or len(dim) != 1 or x.dtype != kind or kind not in (torch.float64, torch.int64, torch.int32):
        return NotImplemented
    along = dim[0] % x.dim()
    sums = x.unsqueeze(along).sum((along, along + 1), keepdim, dtype=kind)
    return sums.squeeze(along) if keepdim else sums


def _unfolded(x: Tensor, dim: int, size: int, step: int) -> Any:
    return NotImplemented if x.dim() else x.reshape(1)[:size]


CORRECTIONS: Mapping[Any, Callable[..., Any]] = {
    aten._log_softmax.default: _log_softmax,
    aten._native_batch_norm_legit.no_stats: moments.batch_norm,
    aten._to_copy.default: _converted,
    aten.addmm.default: _precisely(aten.addmm.default, _product(aten.addmm.default, 1)),
    aten.avg_pool2d.default: _precisely(aten.avg_pool2d.default),
    aten.bmm.default: _product(aten.bmm.default),
    aten.ceil.default: _integers,
    aten.constant_pad_nd.default: _padded,
    aten.convolution.default: _precisely(aten.convolution.default),
    aten.cumsum.default: _precisely(aten.cumsum.default, _cumulative),
    aten.div.Scalar_mode: _divided,
    aten.div.Tensor_mode: _divided,
    aten.floor.default: _integers,
    aten.floor_divide.Scalar: partial(_divided, rounding_mode="floor"),
    aten.floor_divide.default: partial(_divided, rounding_mode="floor"),
    aten.fmod.Scalar: _fmod,
    aten.fmod.Tensor: _fmod,
    aten.gather.default: _of_long_indices(aten.gather.default),
    aten.grid_sampler_2d.default: _sampled_image,
    aten.grid_sampler_3d.default: _sampled_volume,
    aten.max_pool2d_with_indices.default: _maxima,
    aten.max_pool2d_with_indices_backward.default: _gradients_of_maxima,
    aten.mm.default: _product(aten.mm.default),
    aten.native_group_norm.default: moments.group_norm,
    aten.native_layer_norm.default: moments.layer_norm,
    aten.pow.Scalar: powers.of_number,
    aten.pow.Tensor_Scalar: powers.by_number,
    aten.pow.Tensor_Tensor: powers.by_tensor,
    aten.remainder.Scalar: _remainder,
    aten.remainder.Tensor: _remainder,
    aten.round.default: _integers,
    aten.scatter.src: _of_long_indices(aten.scatter.src),
    aten.scatter.value: _of_long_indices(aten.scatter.value),
    aten.scatter_add.default: _precisely(aten.scatter_add.default, _of_long_indices(aten.scatter_add.default)),
    aten.scatter_reduce.two: _scattered,
    aten.sign.default: _sign,
    aten.sum.dim_IntList: _sum,
    aten.std.correction: moments.of_variance(torch.sqrt),
    aten.trunc.default: _integers,
    aten.unfold.default: _unfolded,
    aten.var.correction: moments.of_variance(lambda variance: variance),
    aten.var_mean.correction: moments.variance_and_mean,
}
