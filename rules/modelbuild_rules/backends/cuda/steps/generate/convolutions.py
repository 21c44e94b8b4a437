"""Rewrite convolutions to the form for which Inductor has Triton templates: two or three dimensions, neither dilated
nor transposed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

Sizes = Sequence[int]


def decomposed(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Any:
    """Return a convolution computed with Inductor's form (a decomposition of aten.convolution), or NotImplemented if it
    has that form."""
    dims = weight.dim() - 2
    if groups > 1 and weight.shape[1] == 1 and x.dim() == weight.dim() and not transposed:
        return NotImplemented  # depthwise.py
    if dims > 1 and not transposed and all(step == 1 for step in dilation):
        return NotImplemented
    steps, pads, apart, more = (
        (*each,) * (dims if len(each) == 1 else 1) for each in (stride, padding, dilation, output_padding)
    )
    if dims == 1:  # a row of an image
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
        steps, pads, apart, more = (1, *steps), (0, *pads), (1, *apart), (0, *more)
    apart = tuple(1 if length == 1 else step for length, step in zip(weight.shape[2:], apart, strict=True))
    if transposed:
        made = _transposed(x, weight, steps, pads, apart, more, groups)
        made = made if bias is None else made + bias.reshape(-1, *[1] * (x.dim() - 2))
    elif any(step > 1 for step in apart):
        made = _dilated(x, weight, bias, steps, pads, apart, groups)
    else:
        made = _plain(x, weight, bias, steps, pads, groups)
    return made.squeeze(2) if dims == 1 else made


def _plain(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, groups: int) -> Tensor:
    once, none = [1] * len(stride), [0] * len(stride)
    made: Tensor = torch.ops.aten.convolution.default(x, weight, bias, [*stride], [*padding], once, False, none, groups)
    return made


def _dilated(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Tensor:
    """Return a dilated convolution. Positions only meet positions with the same remainder modulo the dilation. So each
    remainder becomes a separate image, which is convolved without dilation."""
    dims, batch = len(stride), x.shape[0]
    spread = [step > 1 for step in dilation]
    sizes = [length + 2 * more * far for length, more, far in zip(x.shape[2:], padding, spread, strict=True)]
    fill = [-length % step for length, step in zip(sizes, dilation, strict=True)]
    around = [(more * far, more * far + end) for more, far, end in zip(padding, spread, fill, strict=True)]
    x = pad(x, [each for pair in reversed(around) for each in pair])
    split = [part for length, step in zip(x.shape[2:], dilation, strict=True) for part in (length // step, step)]
    places, remainders = [2 + 2 * n for n in range(dims)], [3 + 2 * n for n in range(dims)]
    x = x.reshape(*x.shape[:2], *split).permute(0, *remainders, 1, *places)
    x = x.reshape(batch * math.prod(dilation), *x.shape[dims + 1 :])
    beside = [0 if far else more for far, more in zip(spread, padding, strict=True)]
    made = _plain(x, weight, bias, [1 if f else s for f, s in zip(spread, stride, strict=True)], beside, groups)
    made = made.reshape(batch, *dilation, *made.shape[1:])
    order = [part for n in range(dims) for part in (dims + 2 + n, 1 + n)]
    joined = [length * step for length, step in zip(made.shape[dims + 2 :], dilation, strict=True)]
    made = made.permute(0, dims + 1, *order).reshape(batch, weight.shape[0], *joined)
    for n in range(dims):
        if spread[n]:
            end = sizes[n] - dilation[n] * (weight.shape[2 + n] - 1)
            made = made[(slice(None),) * (2 + n) + (slice(0, end, stride[n]),)]
    return made


def _transposed(
    x: Tensor,
    weight: Tensor,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    output_padding: Sizes,
    groups: int,
) -> Tensor:
    """Return a transposed convolution. It multiplies no input value with a zero that eager mode lacks, because infinity
    times zero is NaN."""
    if any(step > 1 for step in dilation):
        return _of_spread(x, weight, stride, padding, dilation, output_padding, groups)
    inputs, outputs, *kernel = weight.shape
    dims, batch, channels = len(stride), x.shape[0], groups * outputs
    taps = [-(-length // step) for length, step in zip(kernel, stride, strict=True)]
    fill = [count * step - length for count, step, length in zip(taps, stride, kernel, strict=True)]
    weight = pad(weight, [each for end in reversed(fill) for each in (0, end)])
    split = [part for pair in zip(taps, stride, strict=True) for part in pair]
    at, remainders = [3 + 2 * n for n in range(dims)], [4 + 2 * n for n in range(dims)]
    weight = weight.reshape(groups, inputs // groups, outputs, *split).permute(0, 2, *remainders, 1, *at)
    # The last `fill` remainders of a dimension have one tap less.
    parts = [
        [(0, step - less, count), (step - less, step, count - 1)] if less else [(0, step, count)]
        for step, less, count in zip(stride, fill, taps, strict=True)
    ]
    lengths = [length + count - 1 for length, count in zip(x.shape[2:], taps, strict=True)]

    def made_of(chosen: Sequence[tuple[int, int, int]]) -> Tensor:
        """Return the output's positions with some remainders modulo the stride: a plain convolution of the input with
        every stride-th weight, with a channel for each remainder."""
        steps, counts = [end - start for start, end, _ in chosen], [count for *_, count in chosen]
        if 0 in counts:
            return x.new_zeros(batch, channels, *steps, *lengths)
        own = weight[:, :, *(slice(start, end) for start, end, _ in chosen), :, *(slice(count) for count in counts)]
        own = own.reshape(channels * math.prod(steps), inputs // groups, *counts).flip([2 + n for n in range(dims)])
        made = _plain(x, own, None, [1] * dims, [count - 1 for count in counts], groups)
        less = [most - count for most, count in zip(taps, counts, strict=True)]
        made = pad(made, [each for end in reversed(less) for each in (0, end)])
        return made.reshape(batch, channels, *steps, *lengths)

    def joined(*chosen: tuple[int, int, int]) -> Tensor:
        axis = len(chosen)
        if axis == dims:
            return made_of(chosen)
        return torch.cat([joined(*chosen, each) for each in parts[axis]], 2 + axis)

    made = joined()
    order = [part for n in range(dims) for part in (2 + dims + n, 2 + n)]
    spread = [length * step for length, step in zip(lengths, stride, strict=True)]
    made = made.permute(0, 1, *order).reshape(batch, channels, *spread)
    for n in range(dims):
        size = (x.shape[2 + n] - 1) * stride[n] - 2 * padding[n] + kernel[n] + output_padding[n]
        beyond = kernel[n] + output_padding[n] - padding[n] - taps[n] * stride[n]  # zeros after the last position
        if beyond > 0:
            made = pad(made, [0, 0] * (dims - 1 - n) + [0, beyond])
        made = made.narrow(2 + n, padding[n], size)
    return made


def _of_spread(
    x: Tensor,
    weight: Tensor,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    output_padding: Sizes,
    groups: int,
) -> Tensor:
    """Return a dilated transposed convolution: a plain convolution of the input with zeros between its values."""
    dims = len(stride)
    for n, step in enumerate(stride):
        x = _with_zeros(x, 2 + n, step)
    inputs, outputs, *kernel = weight.shape
    weight = (
        weight.reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2).flip([3 + n for n in range(dims)])
    )
    weight = weight.reshape(groups * outputs, inputs // groups, *kernel)
    before = [step * (length - 1) - cut for step, length, cut in zip(dilation, kernel, padding, strict=True)]
    around = [each for cut, more in reversed([*zip(before, output_padding, strict=True)]) for each in (cut, cut + more)]
    return _dilated(pad(x, around), weight, None, [1] * dims, [0] * dims, dilation, groups)


def _with_zeros(x: Tensor, dim: int, step: int) -> Tensor:
    """Return a tensor with `step - 1` zeros between its elements along a dimension."""
    if step == 1:
        return x
    length = x.shape[dim]
    apart = pad(x.unsqueeze(dim + 1), [0, 0] * (x.dim() - dim - 1) + [0, step - 1])
    return apart.flatten(dim, dim + 1).narrow(dim, 0, step * (length - 1) + 1)
