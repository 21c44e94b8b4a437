"""torchvision's operators (0.29.2) in plain PyTorch: eager mode for steps that run a program without torchvision, and
decompositions for backends (backend_api/steps/sampling.py).

A backend's compiler is checked on example inputs with the whole program in eager mode.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

aten = torch.ops.aten


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices of boxes that greedy non-maximum suppression keeps, best first."""
    order = torch.argsort(scores, stable=True, descending=True).tolist()
    x1, y1, x2, y2 = dets.unbind(1)
    areas = (x2 - x1) * (y2 - y1)
    dropped = torch.zeros(len(order), dtype=torch.bool)
    kept = []
    for i in order:
        if dropped[i]:
            continue
        kept.append(i)
        width = (torch.minimum(x2[i], x2) - torch.maximum(x1[i], x1)).clamp(min=0)
        height = (torch.minimum(y2[i], y2) - torch.maximum(y1[i], y1)).clamp(min=0)
        shared = width * height
        dropped |= (shared / (areas[i] + areas - shared)).double() > iou_threshold
    return torch.tensor(kept, dtype=torch.int64)


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Return the mean of bilinear samples in each bin of each region: regions x channels x height x width.

    If `sampling_ratio` is not positive, the size of a region decides how many samples its bins have.
    """
    planes, bins = Planes(input.flatten(2), 0, *input.shape[2:]), (pooled_height, pooled_width)
    if sampling_ratio > 0:
        return pooled(planes, rois, spatial_scale, bins, (sampling_ratio, sampling_ratio), aligned)
    found = [input.new_empty(0, input.shape[1], *bins)]
    for roi in rois:
        x1, y1, x2, y2 = roi[1:] * spatial_scale - (0.5 if aligned else 0.0)
        lengths = (each if aligned else each.clamp(min=1) for each in (y2 - y1, x2 - x1))
        rows, columns = (max(math.ceil(length / count), 0) for length, count in zip(lengths, bins, strict=True))
        found.append(pooled(planes, roi[None], spatial_scale, bins, (rows, columns), aligned))
    return torch.cat(found)


class Planes(NamedTuple):
    """Feature maps, flat: [images, channels, pixels], with the start, height and width of each region's map: numbers,
    or [regions, 1]."""

    flat: Tensor
    start: Any
    height: Any
    width: Any


def pooled(
    planes: Planes, rois: Tensor, scale: Any, bins: tuple[int, int], samples: tuple[int, int], aligned: bool
) -> Tensor:
    """Return the mean of the samples in each bin of each region: [regions, channels, *bins].

    Regions that are not finite, for which torchvision's result is undefined, have zeros.
    """
    rois = rois.to(torch.promote_types(rois.dtype, torch.float32))
    images = rois[:, 0].to(torch.int64).clamp(0, planes.flat.shape[0] - 1)
    ends = [(rois[:, dim, None] * scale, rois[:, dim + 2, None] * scale) for dim in (2, 1)]
    directions = [
        _samples(first, last, size, count, inside, aligned)
        for (first, last), size, count, inside in zip(ends, (planes.height, planes.width), bins, samples, strict=True)
    ]
    image = images[:, None, None, None]
    channel = torch.arange(planes.flat.shape[1], device=rois.device)[None, :, None, None]
    start, width = (
        each[:, :, None, None] if isinstance(each, Tensor) else each for each in (planes.start, planes.width)
    )
    total = rois.new_zeros(rois.shape[0], planes.flat.shape[1], *bins)
    for y, x in product(*directions):
        value: Any = 0.0
        for (row, down), (column, right) in product(y, x):
            at = start + row[:, None, :, None] * width + column[:, None, None, :]
            found = aten._unsafe_index.Tensor(planes.flat, [image, channel, at]).to(rois.dtype)
            found = down[:, None, :, None] * right[:, None, None, :] * found
            value = value + found
        total = total + value
    return (total / max(math.prod(samples), 1)).to(planes.flat.dtype)


def _samples(
    first: Tensor, last: Tensor, size: Any, bins: int, samples: int, aligned: bool
) -> list[list[tuple[Tensor, Tensor]]]:
    """Return for each sample of a bin in one direction two neighbours: positions and weights, each [regions, bins].
    Up to one pixel outside, the edge is repeated; the weights of samples further outside are 0."""
    offset = 0.5 if aligned else 0.0
    start = first - offset
    length = last - offset - start
    if not aligned:
        length = torch.where(length < 1, 1.0, length)
    step = length / bins
    bin = torch.arange(bins, device=first.device, dtype=first.dtype)[None, :]
    made = []
    for sample in range(samples):
        at = start + bin * step + (sample + 0.5) * step / samples
        inside = (at >= -1) & (at <= size)
        at = torch.where(inside & (at > 0), at, 0.0)
        low = at.to(torch.int64)
        edge = low >= size - 1
        low = torch.where(edge, size - 1, low)
        weight = torch.where(edge, 0.0, at - low)
        pairs = ((low, 1 - weight), (torch.where(edge, low, low + 1), weight))
        made.append([(place, torch.where(inside, each, 0.0)) for place, each in pairs])
    return made


def deform_conv2d(input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *numbers: Any) -> Tensor:
    """Return torchvision.deform_conv2d: products of the weights with samples at moved points.

    numbers   the vertical and horizontal stride, padding and dilation, groups, groups of offsets, and whether the mask
              counts
    """
    strides, paddings, dilations = (numbers[place : place + 2] for place in (0, 2, 4))
    groups, offset_groups, use_mask = numbers[6:]
    images, channels, *sizes = input.shape
    outputs, per_group, *kernel = weight.shape
    rows, columns = offset.shape[2:]
    points = kernel[0] * kernel[1]
    moved = offset.reshape(images, offset_groups, points, 2, rows, columns)
    places = []
    for dim, (count, shape) in enumerate(zip((rows, columns), ((-1, 1), (1, -1)), strict=True)):
        tap = torch.arange(points, device=input.device)
        tap = tap // kernel[1] if dim == 0 else tap % kernel[1]
        first = torch.arange(count, device=input.device) * strides[dim] - paddings[dim]
        at = first.reshape(shape)[None] + (tap * dilations[dim])[:, None, None]
        places.append(at.to(input.dtype) + moved[:, :, :, dim])
    y, x = (each.unsqueeze(2) for each in places)  # [images, offset groups, 1, points, rows, columns]
    inside = (y > -1) & (y < sizes[0]) & (x > -1) & (x < sizes[1])
    planes = input.reshape(images, offset_groups, channels // offset_groups, *sizes)
    image, group, channel = (
        torch.arange(count, device=input.device).reshape([-1 if dim == own else 1 for dim in range(6)])
        for own, count in enumerate(planes.shape[:3])
    )
    y, x = (torch.where(inside, each, 0.0) for each in (y, x))
    top, left = torch.floor(y), torch.floor(x)
    down, right = y - top, x - left
    value: Any = 0.0
    for low, high in product((0, 1), (0, 1)):
        row, column = (top + low).to(torch.int64), (left + high).to(torch.int64)
        known = inside & (row >= 0) & (row < sizes[0]) & (column >= 0) & (column < sizes[1])
        at = [row.clamp(0, sizes[0] - 1), column.clamp(0, sizes[1] - 1)]
        found = torch.where(known, aten._unsafe_index.Tensor(planes, [image, group, channel, *at]), 0.0)
        share = (down if low else 1 - down) * (right if high else 1 - right)
        value = value + share * found
    if use_mask:
        value = value * mask.reshape(images, offset_groups, 1, points, rows, columns)
    taps = weight.reshape(1, groups, outputs // groups, per_group * points)
    made = taps @ value.reshape(images, groups, per_group * points, rows * columns)
    return made.reshape(images, outputs, rows, columns) + bias[:, None, None]
