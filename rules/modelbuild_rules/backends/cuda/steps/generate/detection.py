"""Decompose operators of detectors: non-maximum suppression, samples of feature maps at regions and offsets
(backend_api/steps/sampling.py), and peaks of heat maps.

The operators are torchvision's (0.29.2), and modelbuild's own (operators/steps/detection_operators.py). They are in a
program by name; who reads the program registers them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from modelbuild_rules.backend_api.steps.sampling import Planes, deform_conv2d, pooled, roi_align
from modelbuild_rules.backend_api.steps.shapes import upper
from modelbuild_rules.backends.cuda.steps.generate.data_dependent import nonzero

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


def bicubic_peaks(maps: Tensor, heights: Tensor, widths: Tensor) -> Any:
    """Return modelbuild_kernels.bicubic_peaks: the peak of each map, resized to the size of its region."""
    from modelbuild_rules.backends.cuda.steps.generate.lowerings import peaks  # noqa: F401 - registers it

    if any(isinstance(size, int) and size == 0 for size in maps.shape):
        return maps.new_empty(*maps.shape[:2], 3)
    return torch.ops.modelbuild.peaks(maps.contiguous(), heights.contiguous(), widths.contiguous()).to(maps.dtype)


def _best_first(scores: Tensor) -> Tensor:
    return torch.sort(scores, descending=True, stable=True)[1]


def _kept(order: Tensor, suppressed: Tensor, wanted: Tensor | None = None) -> Tensor:
    kept = torch.ops.modelbuild.suppression(suppressed) != 0
    return order.index_select(0, nonzero(kept if wanted is None else kept & wanted).squeeze(1))


def _suppressed(boxes: Tensor, of_class: tuple[Tensor, Tensor] | None, threshold: float) -> Tensor:
    """Return for each box which better ones suppress it, as in lowerings/suppression.py. Boxes are best first.

    of_class   classes, and whether they do not matter
    """
    classes, apart = of_class or (None, None)
    made: Tensor = torch.ops.modelbuild.overlaps(boxes.contiguous(), classes, apart, *_float32_bound(threshold))
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


def _roi_align(*given: Any) -> Any:
    """Return torchvision.roi_align with a given number of samples in each bin."""
    *_, sampling_ratio, _ = given
    return roi_align(*given) if sampling_ratio > 0 else NotImplemented


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
    planes = Planes(torch.cat([each.flatten(2) for each in features], 2), *sizes)
    scale = of_level(scales, rois.dtype)[:, None]
    return pooled(planes, rois, scale, (pooled_height, pooled_width), (sampling_ratio, sampling_ratio), False)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "modelbuild_kernels::batched_nms": batched_nms,
    "modelbuild_kernels::bicubic_peaks": bicubic_peaks,
    "modelbuild_kernels::multiscale_roi_align": multiscale_roi_align,
    "torchvision::deform_conv2d": deform_conv2d,
    "torchvision::nms": nms,
    "torchvision::roi_align": _roi_align,
}
