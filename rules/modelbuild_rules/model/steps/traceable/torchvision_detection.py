"""Traceable forms of functions of torchvision's detection models: the same arguments and results.

Each function here becomes the code of a function in torchvision while a model is exported (replacements.py), so it uses
no global names. This module does not import torchvision, because it would then be in the key of each model's export.

Private names used, checked on torchvision 0.29.2: torchvision.ops.poolers._convert_to_roi_format, and
torchvision.models.detection.roi_heads (expand_boxes, expand_masks). The functions that replacements.py lists, some of
them private, are patched.
"""

from __future__ import annotations

from typing import Any


def batched_nms(boxes: Any, scores: Any, idxs: Any, iou_threshold: float) -> Any:
    """Replaces torchvision.ops.boxes.batched_nms, which loops over the classes that occur."""
    import torch

    return torch.ops.modelbuild_kernels.batched_nms(boxes, scores, idxs, iou_threshold)


def multiscale_roi_align(
    x_filtered: Any, boxes: Any, output_size: Any, sampling_ratio: int, scales: Any, mapper: Any
) -> Any:
    """Replaces torchvision.ops.poolers._multiscale_roi_align, which has a tensor of unknown size for each level."""
    import sys

    import torch

    poolers = sys.modules["torchvision.ops.poolers"]
    rois = poolers._convert_to_roi_format(boxes)
    if len(x_filtered) == 1:
        return poolers.roi_align(
            x_filtered[0], rois, output_size=output_size, spatial_scale=scales[0], sampling_ratio=sampling_ratio
        )
    return torch.ops.modelbuild_kernels.multiscale_roi_align(
        list(x_filtered), rois, mapper(boxes), [float(each) for each in scales], *output_size, sampling_ratio
    )


def decode(self: Any, rel_codes: Any, boxes: Any) -> Any:
    """Replaces BoxCoder.decode of torchvision.models.detection._utils, which branches on the existence of boxes.

    Without boxes the original returns 0 x 4c; this returns 0 x c x 4, from which callers take the same empty boxes.
    """
    import torch

    made = self.decode_single(rel_codes, torch.cat(boxes, dim=0))
    return made.reshape(made.shape[0], made.shape[1] // 4, 4)


def paste_masks_in_image(masks: Any, boxes: Any, img_shape: Any, padding: int = 1) -> Any:
    """Replaces torchvision.models.detection.roi_heads.paste_masks_in_image, which resizes masks one by one.

    A resized mask is rows @ mask @ columns, where each row and column has the weights of bilinear interpolation.
    """
    import sys

    import torch

    roi_heads = sys.modules["torchvision.models.detection.roi_heads"]
    masks, scale = roi_heads.expand_masks(masks, padding=padding)
    boxes = roi_heads.expand_boxes(boxes, scale).to(dtype=torch.int64)

    def weights(first: Any, last: Any, size: int) -> Any:
        """Return the weights of a mask's pixels in each of `size` pixels: boxes x size x pixels."""
        pixels = masks.shape[-1]
        length = (last - first + 1).clamp(min=1)[:, None]
        offset = torch.arange(size) - first[:, None]
        at = ((offset + 0.5) * (pixels / length) - 0.5).clamp(0, pixels - 1)
        inside = (offset >= 0) & (offset < length)
        near = (1 - (at[:, :, None] - torch.arange(pixels)).abs()).clamp(min=0)
        return near * inside[:, :, None]

    left, top, right, bottom = boxes.unbind(1)
    rows, columns = weights(top, bottom, img_shape[0]), weights(left, right, img_shape[1])
    return (rows @ masks[:, 0] @ columns.transpose(1, 2))[:, None]


def heatmaps_to_keypoints(maps: Any, rois: Any) -> Any:
    """Replaces torchvision.models.detection.roi_heads.heatmaps_to_keypoints, which resizes the maps of each box to the
    box's own size."""
    import torch

    corners = rois[:, :2]
    sizes = (rois[:, 2:] - corners).clamp(min=1)
    pixels = sizes.ceil()
    widths, heights = pixels.to(torch.int64).unbind(1)
    peaks = torch.ops.modelbuild_kernels.bicubic_peaks(maps, heights, widths).to(torch.float32)
    steps = (sizes / pixels).to(torch.float32)
    places = (peaks[:, :, :2] + 0.5) * steps[:, None] + corners.to(torch.float32)[:, None]
    return torch.cat([places, torch.ones_like(places[:, :, :1])], 2), peaks[:, :, 2]
