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

from modelbuild_rules.backend_api.steps.division import floor_quotient
from modelbuild_rules.backend_api.steps.shapes import may_be_zero
from modelbuild_rules.operators.steps import lowered_operators

aten = torch.ops.aten


def _remainder(x: Tensor, y: Any) -> Any:
    kind = torch.result_type(x, y)
    if kind.is_floating_point or kind.is_complex:
        return NotImplemented
    return x - torch.div(x, y, rounding_mode="floor") * y


def _divided(x: Tensor, y: Any, *, rounding_mode: str | None = None) -> Any:
    kind = torch.result_type(x, y)
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


def _power(x: Tensor, exponent: Any) -> Any:
    """Return square roots, as eager mode does except for float16. A power has other values for -inf and -0.0."""
    if not x.is_floating_point() or x.dtype == torch.float16 or exponent not in (0.5, -0.5):
        return NotImplemented
    return torch.sqrt(x) if exponent > 0 else torch.rsqrt(x)


def _sampled_image(x: Tensor, grid: Tensor, *how: Any) -> Any:
    lowered_operators.register()
    precise = torch.promote_types(x.dtype, torch.float32)
    return torch.ops.modelbuild.grid_sampler_2d.default(x.to(precise), grid.to(precise), *how).to(x.dtype)


def _sampled_volume(x: Tensor, grid: Tensor, *how: Any) -> Any:
    if x.dtype not in (torch.float16, torch.bfloat16):
        return NotImplemented
    return aten.grid_sampler_3d.default(x.to(torch.float32), grid.to(torch.float32), *how).to(x.dtype)


def _scattered(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, **how: Any) -> Any:
    if x.dtype != torch.bool:
        return NotImplemented
    return aten.scatter_reduce.two(x.to(torch.int64), dim, index, src.to(torch.int64), reduce, **how).to(torch.bool)


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


def _sum(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the sum or sums of a tensor without dimensions."""
    if x.dim():
        return NotImplemented
    return x.to(dtype or (x.dtype if x.is_floating_point() else torch.int64)).clone()


def _unfolded(x: Tensor, dim: int, size: int, step: int) -> Any:
    return NotImplemented if x.dim() else x.reshape(1)[:size]


CORRECTIONS: Mapping[Any, Callable[..., Any]] = {
    aten._log_softmax.default: _log_softmax,
    aten._to_copy.default: _converted,
    aten.addmm.default: _product(aten.addmm.default, 1),
    aten.bmm.default: _product(aten.bmm.default),
    aten.constant_pad_nd.default: _padded,
    aten.cumsum.default: _sum,
    aten.div.Scalar_mode: _divided,
    aten.div.Tensor_mode: _divided,
    aten.floor_divide.Scalar: partial(_divided, rounding_mode="floor"),
    aten.floor_divide.default: partial(_divided, rounding_mode="floor"),
    aten.gather.default: _of_long_indices(aten.gather.default),
    aten.grid_sampler_2d.default: _sampled_image,
    aten.grid_sampler_3d.default: _sampled_volume,
    aten.max_pool2d_with_indices.default: _maxima,
    aten.max_pool2d_with_indices_backward.default: _gradients_of_maxima,
    aten.mm.default: _product(aten.mm.default),
    aten.pow.Tensor_Scalar: _power,
    aten.remainder.Scalar: _remainder,
    aten.remainder.Tensor: _remainder,
    aten.scatter.src: _of_long_indices(aten.scatter.src),
    aten.scatter.value: _of_long_indices(aten.scatter.value),
    aten.scatter_add.default: _of_long_indices(aten.scatter_add.default),
    aten.scatter_reduce.two: _scattered,
    aten.sign.default: _sign,
    aten.sum.dim_IntList: _sum,
    aten.unfold.default: _unfolded,
}
