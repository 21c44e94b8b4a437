"""Compile depthwise convolutions to loops over their taps. Inductor's template computes each group as a matrix product,
in tiles of at least 16 channels; a depthwise convolution uses one channel of a tile.

Uses private parts of torch; target_gpu.py applies the lowering, and lists the versions that it was checked on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch

MOST_TAPS = 128
"""The taps are unrolled. The template computes convolutions with more taps."""


def with_depthwise(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of Inductor's lowering of aten.convolution (x, weight, bias, ...)."""

    def convolution(
        x: Any,
        weight: Any,
        bias: Any,
        stride: Sequence[Any],
        padding: Sequence[Any],
        dilation: Sequence[Any],
        transposed: bool,
        output_padding: Sequence[Any],
        groups: int,
    ) -> Any:
        from torch._inductor.virtualized import V

        outputs, inputs, *kernel = V.graph.sizevars.guard_int_seq(weight.get_size())
        if (
            transposed
            or inputs > 1
            or groups == 1
            or math.prod(kernel) > MOST_TAPS
            or len(x.get_size()) != 2 + len(kernel)
        ):
            return original(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        steps, pads, apart = (
            V.graph.sizevars.guard_int_seq([*each] * (len(kernel) if len(each) == 1 else 1))
            for each in (stride, padding, dilation)
        )
        return _depthwise(x, weight, bias, kernel, steps, pads, apart, outputs // groups)

    return convolution


def _depthwise(
    x: Any,
    weight: Any,
    bias: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    multiplier: int,
) -> Any:
    """Return a depthwise convolution of x, [batch, channels, ...], with weight, [multiplier * channels, 1, *kernel]. It
    sums in float32."""
    from torch._inductor.ir import Pointwise
    from torch._inductor.lowering import constant_boundary_condition
    from torch._inductor.virtualized import ops
    from torch.utils._sympy.functions import FloorDiv

    x.realize()
    weight.realize()
    batch, _, *sizes = x.get_size()
    lengths = [
        FloorDiv(size + 2 * pad - far * (taps - 1) - 1, step) + 1
        for size, taps, step, pad, far in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]
    load = constant_boundary_condition(x, 0.0, dim=len(kernel)) if any(padding) else x.make_loader()
    load_weight, load_bias = weight.make_loader(), None if bias is None else bias.make_loader()

    def value(index: Sequence[Any]) -> Any:
        first, channel, *place = index
        total = None if load_bias is None else ops.to_dtype(load_bias([channel]), torch.float32)
        for tap in product(*map(range, kernel)):
            at = [
                position * step - pad + offset * far
                for position, step, pad, offset, far in zip(place, stride, padding, tap, dilation, strict=True)
            ]
            pair = load([first, FloorDiv(channel, multiplier), *at]), load_weight([channel, 0, *tap])
            term = ops.mul(*(ops.to_dtype(each, torch.float32) for each in pair))
            total = term if total is None else ops.add(total, term)
        return ops.to_dtype(total, x.get_dtype())

    made = Pointwise.create(
        device=x.get_device(), dtype=x.get_dtype(), inner_fn=value, ranges=[batch, weight.get_size()[0], *lengths]
    )
    made.realize()
    return made
