"""Decompose operators of detectors: non-maximum suppression, and samples of feature maps at regions and offsets.

The operators are torchvision's (0.29.2), and modelbuild's own (operators/steps/detection_operators.py). They are in a
program by name; who reads the program registers them.

Uses a private part of torch, which target_gpu.py lists.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from modelbuild_rules.backends.cuda.steps.generate.data_dependent import nonzero, upper

aten = torch.ops.aten

_MOVED_APART = 1000
"""Up to this number of boxes, torchvision on the CPU moves the boxes of each class apart and calls nms once."""


def detection_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return the decompositions of the registered operators."""
    return {operator: function for name, function in _FUNCTIONS.items() for operator in _registered(name)}


def _registered(name: str) -> Iterator[Any]:
    namespace, _, packet = name.partition("::")
    operators = getattr(torch.ops, namespace)
    if hasattr(operators, packet):
        yield getattr(operators, packet).default


def _suppresses(boxes: Tensor, scores: Tensor, threshold: float) -> bool:
    """Return whether nms or batched_nms of these arguments can be decomposed."""
    from modelbuild_rules.backends.cuda.steps.generate.lowerings import suppression  # noqa: F401 - registers it

    return boxes.dtype == scores.dtype == torch.float32 and threshold >= 0


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Any:
    """Return torchvision.nms: indices of kept boxes, best first."""
    if not _suppresses(boxes, scores, iou_threshold):
        return NotImplemented
    order = _best_first(scores)
    return _kept(order, _suppressed(boxes.index_select(0, order), None, iou_threshold))


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Any:
    """Return modelbuild_kernels.batched_nms: nms among the boxes of each class."""
    if not _suppresses(boxes, scores, iou_threshold):
        return NotImplemented
    most = upper(boxes.shape[0])
    order = _best_first(scores)
    boxes, classes = boxes.index_select(0, order), idxs.index_select(0, order)
    largest = torch.cat([boxes.reshape(-1), boxes.new_full((1,), -torch.inf)]).amax()
    moved = boxes + (classes.to(boxes.dtype) * (largest + 1)).unsqueeze(1)
    count = torch.ones_like(classes, dtype=torch.int64).sum()
    apart = count <= _MOVED_APART
    of_class = None if most is not None and most <= _MOVED_APART else (classes, apart)
    suppressed = _suppressed(torch.where(apart, moved, boxes), of_class, iou_threshold)
    return _kept(order, suppressed, (classes == classes) | apart)


def _best_first(scores: Tensor) -> Tensor:
    return torch.sort(scores, descending=True, stable=True)[1]


def _kept(order: Tensor, suppressed: Tensor, wanted: Tensor | None = None) -> Tensor:
    kept = torch.ops.modelbuild.suppression(suppressed) != 0
    return order.index_select(0, nonzero(kept if wanted is None else kept & wanted).squeeze(1))


def _suppressed(boxes: Tensor, of_class: tuple[Tensor, Tensor] | None, threshold: float) -> Tensor:
    """Return for each box which better ones suppress it, as in lowerings/suppression.py. Boxes are best first.

    of_class   classes, and whether they do not matter
    """
    count = boxes.shape[0]
    numbers = torch.arange(count, device=boxes.device)
    words = (count + 31) // 32
    others = torch.arange(words * 32, device=boxes.device).reshape(words, 32)
    inside = others.clamp(max=count - 1)
    rows = [each[:, None, None] for each in boxes.unbind(1)]
    columns = [aten._unsafe_index.Tensor(each, [inside]) for each in boxes.unbind(1)]
    hidden = _overlaps(columns, rows, threshold) & (others < numbers[:, None, None])
    if of_class is not None:
        classes, apart = of_class
        hidden = hidden & (apart | (classes[:, None, None] == aten._unsafe_index.Tensor(classes, [inside])))
    bits = torch.arange(32, device=boxes.device, dtype=torch.int32)
    return torch.bitwise_left_shift(hidden.to(torch.int32), bits).sum(2, dtype=torch.int32)


def _overlaps(best: Sequence[Tensor], other: Sequence[Tensor], threshold: float) -> Tensor:
    """Return whether intersection / union, rounded to float32, is above the threshold, as torchvision compares it.

    With the greatest float32 t that is not above the threshold, s / u is rounded to more than t if and only if it is
    more than t + half an ulp, for a quotient is never half-way between two numbers. s - t u is exact near that bound.
    """
    greatest = [torch.where(a < b, b, a) for a, b in zip(best[:2], other[:2], strict=True)]
    least = [torch.where(b < a, b, a) for a, b in zip(best[2:], other[2:], strict=True)]
    sides = [torch.where(low < high, high - low, 0.0) for low, high in zip(greatest, least, strict=True)]
    shared = sides[0] * sides[1]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (best, other)]
    union = areas[0] + areas[1] - shared
    bound, half = _float32_bound(threshold)
    rest = _fused(union, -bound, shared)
    return (rest > union * half) & (union >= 0)


def _fused(x: Tensor, factor: float, addend: Tensor) -> Tensor:
    """Return x * factor + addend, rounded once."""
    made: Tensor = torch.ops.prims.fma(x, torch.full_like(x, factor), addend)
    return made


def _float32_bound(threshold: float) -> tuple[float, float]:
    """Return the greatest float32 that is not above a threshold, and half the distance to the next."""
    (bits,) = struct.unpack("<i", struct.pack("<f", threshold))
    if _float32(bits) > threshold:
        bits -= 1
    return _float32(bits), (_float32(bits + 1) - _float32(bits)) / 2


def _float32(bits: int) -> float:
    (value,) = struct.unpack("<f", struct.pack("<i", bits))
    return float(value)


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Any:
    """Return torchvision.roi_align with a given number of samples in each bin."""
    if sampling_ratio <= 0:
        return NotImplemented
    height, width = input.shape[2:]
    planes = _Planes(input.flatten(2), 0, height, width)
    return _pooled(planes, rois, spatial_scale, (pooled_height, pooled_width), sampling_ratio, aligned)


def multiscale_roi_align(
    features: Sequence[Tensor],
    rois: Tensor,
    levels: Tensor,
    scales: Sequence[float],
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> Any:
    """Return modelbuild_kernels.multiscale_roi_align: roi_align of each region in the feature map of its level."""
    if sampling_ratio <= 0:
        return NotImplemented

    def of_level(values: Sequence[Any], dtype: torch.dtype) -> Tensor:
        found = torch.full_like(levels, values[0], dtype=dtype)
        for level, value in enumerate(values[1:], 1):
            found = torch.where(levels == level, value, found)
        return found

    heights, widths = ([each.shape[dim] for each in features] for dim in (2, 3))
    starts = [0]
    for height, width in zip(heights[:-1], widths[:-1], strict=True):
        starts.append(starts[-1] + height * width)
    sizes = (of_level(each, torch.int64)[:, None] for each in (starts, heights, widths))
    planes = _Planes(torch.cat([each.flatten(2) for each in features], 2), *sizes)
    scale = of_level(scales, rois.dtype)[:, None]
    return _pooled(planes, rois, scale, (pooled_height, pooled_width), sampling_ratio, False)


class _Planes:
    """Feature maps, flat: [images, channels, pixels], with the start, height and width of each region's map: numbers,
    or [regions, 1]."""

    def __init__(self, flat: Tensor, start: Any, height: Any, width: Any) -> None:
        self.flat = flat
        self.start = start
        self.height = height
        self.width = width


def _pooled(planes: _Planes, rois: Tensor, scale: Any, pooled: tuple[int, int], samples: int, aligned: bool) -> Tensor:
    """Return the mean of samples x samples values in each bin of each region: [regions, channels, *pooled].

    Regions that are not finite, for which torchvision's result is undefined, have zeros.
    """
    rois = rois.to(torch.promote_types(rois.dtype, torch.float32))
    images = rois[:, 0].to(torch.int64).clamp(0, planes.flat.shape[0] - 1)
    ends = [(rois[:, dim, None] * scale, rois[:, dim + 2, None] * scale) for dim in (2, 1)]
    directions = [
        _samples(*end, size, bins, samples, aligned)
        for end, size, bins in zip(ends, (planes.height, planes.width), pooled, strict=True)
    ]
    image = images[:, None, None, None]
    channel = torch.arange(planes.flat.shape[1], device=rois.device)[None, :, None, None]
    start, width = (
        each[:, :, None, None] if isinstance(each, Tensor) else each for each in (planes.start, planes.width)
    )
    total: Any = 0.0
    for y, x in product(*directions):
        value: Any = 0.0
        for (row, down), (column, right) in product(y, x):
            at = start + row[:, None, :, None] * width + column[:, None, None, :]
            found = aten._unsafe_index.Tensor(planes.flat, [image, channel, at]).to(rois.dtype)
            found = down[:, None, :, None] * right[:, None, None, :] * found
            value = value + found
        total = total + value
    return (total / samples**2).to(planes.flat.dtype)


def _samples(
    first: Tensor, last: Tensor, size: Any, bins: int, samples: int, aligned: bool
) -> list[list[tuple[Tensor, Tensor]]]:
    """Return for each sample of a bin in one direction two neighbours: positions and weights, each [regions, bins].
    Up to one pixel outside, the edge is repeated; the weights of samples further outside are 0."""
    offset = 0.5 if aligned else 0.0
    start, length = first - offset, last - first
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


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "modelbuild_kernels::batched_nms": batched_nms,
    "modelbuild_kernels::multiscale_roi_align": multiscale_roi_align,
    "torchvision::deform_conv2d": deform_conv2d,
    "torchvision::nms": nms,
    "torchvision::roi_align": roi_align,
}
