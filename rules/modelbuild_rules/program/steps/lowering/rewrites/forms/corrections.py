"""Forms of operators whose kernels in ExecuTorch 1.5.1 compute other values than eager mode for some arguments.

| operator | wrong for |
| --- | --- |
| remainder | whole numbers of different signs: the sign is that of the dividend |
| division, rounded down | floating-point numbers divided by 0 |
| constant_pad_nd | negative padding: error 0x12 at run |
| sign | NaN |
| gradients of max_pool2d | all: the kernel adds to a result that it does not set to 0 |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

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
    y = y.to(precise) if isinstance(y, Tensor) else torch.full((), y, dtype=precise)
    quotient, rest = x / y, torch.fmod(x, y)
    whole = (x - rest) / y
    whole = torch.where((rest != 0) & ((y < 0) != (rest < 0)), whole - 1, whole)
    rounded = torch.floor(whole)
    rounded = torch.where(whole - rounded > 0.5, rounded + 1, rounded)
    rounded = torch.where(whole != 0, rounded, quotient * 0)  # with the sign of the quotient
    return torch.where(y == 0, quotient, rounded).to(kind)


def _floor_divided(x: Tensor, y: Any) -> Any:
    return _divided(x, y, rounding_mode="floor")


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


def _gradients_of_maxima(grad: Tensor, x: Tensor, *window: Any) -> Any:
    *_, indices = window
    flat = torch.zeros_like(x).flatten(-2)
    return flat.scatter_add(-1, indices.flatten(-2), grad.flatten(-2)).unflatten(-1, x.shape[-2:])


CORRECTIONS: Mapping[Any, Callable[..., Any]] = {
    aten.constant_pad_nd.default: _padded,
    aten.div.Scalar_mode: _divided,
    aten.div.Tensor_mode: _divided,
    aten.floor_divide.Scalar: _floor_divided,
    aten.floor_divide.default: _floor_divided,
    aten.max_pool2d_with_indices_backward.default: _gradients_of_maxima,
    aten.remainder.Scalar: _remainder,
    aten.remainder.Tensor: _remainder,
    aten.sign.default: _sign,
}
