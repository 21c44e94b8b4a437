"""Operators of modelbuild for parts of torchvision's detection models that torch.export cannot trace.

batched_nms           torchvision.ops.batched_nms, which loops over classes
bicubic_peaks         a part of heatmaps_to_keypoints, which resizes the maps of each box to the box's own size
multiscale_roi_align  torchvision.ops.MultiScaleRoIAlign, which divides regions by the level of their feature map

The export step puts them into programs (model/steps/traceable). The functions here compute the same in eager mode, with
torchvision's operators, for steps that run a program to compare it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from modelbuild_rules.operators.steps import torchvision_operators
from modelbuild_rules.operators.steps.sizes import up_to

NAMESPACE = "modelbuild_kernels"

_SCHEMAS = {
    "batched_nms": "(Tensor boxes, Tensor scores, Tensor idxs, float iou_threshold",
    "bicubic_peaks": "(Tensor maps, Tensor heights, Tensor widths",
    "multiscale_roi_align": (
        "(Tensor[] features, Tensor rois, Tensor levels, float[] scales, int pooled_height, int pooled_width,"
        " int sampling_ratio"
    ),
}
_MOVED_APART = 1000
"""Up to this number of boxes, torchvision on the CPU moves the boxes of each class apart and calls nms once."""


@cache
def register() -> None:
    """Register the operators, their shapes and their out variants, which kernels implement."""
    torchvision_operators.register()
    library = torch.library.Library(NAMESPACE, "DEF")
    _KEPT.append(library)
    for name, arguments in _SCHEMAS.items():
        library.define(f"{name}{arguments}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
        library.define(f"{name}.out{arguments}, *, Tensor(a!) out) -> Tensor(a!)")
        eager, shape = _FUNCTIONS[name]
        library.impl(name, eager, "CPU")
        torch.library.register_fake(f"{NAMESPACE}::{name}", shape, lib=library)


_KEPT: list[Any] = []  # registrations end with their library


def _batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices of boxes that non-maximum suppression within each class keeps, best first."""
    nms = torch.ops.torchvision.nms
    if boxes.shape[0] == 0:
        return boxes.new_empty(0, dtype=torch.int64)
    if boxes.shape[0] <= _MOVED_APART:
        return nms(boxes + (idxs.to(boxes) * (boxes.max() + 1))[:, None], scores, iou_threshold)
    of_classes = [torch.where(idxs == each)[0] for each in idxs.unique()]
    kept = torch.cat([own[nms(boxes[own], scores[own], iou_threshold)] for own in of_classes]).sort()[0]
    return kept[scores[kept].argsort(stable=True, descending=True)]


def _batched_nms_shape(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    return boxes.new_empty(up_to(boxes.shape[0]), dtype=torch.int64)


def _bicubic_peaks(maps: Tensor, heights: Tensor, widths: Tensor) -> Tensor:
    """Return the column, row and value of the greatest pixel of each map: regions x maps x 3.

    maps              regions x maps x rows x columns
    heights, widths   to which the maps of each region are resized, in pixels
    """
    found = maps.new_empty(*maps.shape[:2], 3)
    for region, (height, width) in enumerate(zip(heights.tolist(), widths.tolist(), strict=True)):
        resized = torch.nn.functional.interpolate(maps[region][None], (height, width), mode="bicubic")[0]
        place = resized.flatten(1).argmax(1)
        value = resized.flatten(1).gather(1, place[:, None])[:, 0]
        found[region] = torch.stack([(place % width).to(value), (place // width).to(value), value], 1)
    return found


def _bicubic_peaks_shape(maps: Tensor, heights: Tensor, widths: Tensor) -> Tensor:
    return maps.new_empty(*maps.shape[:2], 3)


def _multiscale_roi_align(
    features: Sequence[Tensor],
    rois: Tensor,
    levels: Tensor,
    scales: Sequence[float],
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> Tensor:
    """Return roi_align of each region in the feature map of its level."""
    found = features[0].new_empty(rois.shape[0], features[0].shape[1], pooled_height, pooled_width)
    for level, (feature, scale) in enumerate(zip(features, scales, strict=True)):
        own = torch.where(levels == level)[0]
        found[own] = torch.ops.torchvision.roi_align(
            feature, rois[own], scale, pooled_height, pooled_width, sampling_ratio, False
        )
    return found


def _multiscale_roi_align_shape(
    features: Sequence[Tensor],
    rois: Tensor,
    levels: Tensor,
    scales: Sequence[float],
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> Tensor:
    return features[0].new_empty(rois.shape[0], features[0].shape[1], pooled_height, pooled_width)


_FUNCTIONS = {
    "batched_nms": (_batched_nms, _batched_nms_shape),
    "bicubic_peaks": (_bicubic_peaks, _bicubic_peaks_shape),
    "multiscale_roi_align": (_multiscale_roi_align, _multiscale_roi_align_shape),
}
