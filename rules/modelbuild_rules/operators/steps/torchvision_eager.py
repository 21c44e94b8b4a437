"""torchvision's operators in eager mode, for steps that run a program without torchvision: simple, and slow.

A backend's compiler is checked on example inputs with the whole program in eager mode.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
    """Return the mean of bilinear samples in each bin of each region: regions x channels x height x width."""
    offset = 0.5 if aligned else 0.0
    found = [input.new_empty(0, input.shape[1], pooled_height, pooled_width)]
    for image, *box in rois:
        x1, y1, x2, y2 = (edge * spatial_scale - offset for edge in box)
        width, height = x2 - x1, y2 - y1
        if not aligned:
            width, height = width.clamp(min=1), height.clamp(min=1)
        y = _centres(y1, height, pooled_height, sampling_ratio)
        x = _centres(x1, width, pooled_width, sampling_ratio)
        values = _between(input[int(image)], y.reshape(-1), x.reshape(-1))
        values = values.reshape(input.shape[1], *y.shape, *x.shape).sum((2, 4)) / max(y.shape[1] * x.shape[1], 1)
        found.append(values[None])
    return torch.cat(found)


def _centres(start: Tensor, length: Tensor, bins: int, ratio: int) -> Tensor:
    """Return the coordinates of samples along one dimension: bins x samples."""
    samples = ratio if ratio > 0 else max(int(torch.ceil(length / bins)), 0)
    step = length / bins
    within = (torch.arange(samples, dtype=start.dtype) + 0.5) * step / max(samples, 1)
    return start + torch.arange(bins, dtype=start.dtype)[:, None] * step + within


def _between(image: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Return bilinear samples of an image (channels x height x width) at all pairs of coordinates. The edge is repeated
    up to one pixel outside; farther out, samples are 0."""
    (up, down, below, inside_y), (left, right, beside, inside_x) = (
        _neighbours(at, size) for at, size in ((y, image.shape[1]), (x, image.shape[2]))
    )
    above, before = 1 - below, 1 - beside
    rows = image[:, up] * above[:, None], image[:, down] * below[:, None]
    values = sum(row[:, :, left] * before + row[:, :, right] * beside for row in rows)
    return values * (inside_y[:, None] & inside_x)


def _neighbours(at: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the pixels on both sides of coordinates, the weight of the second, and whether samples are not 0."""
    inside = (at >= -1) & (at <= size)
    at = at.clamp(0, size - 1)
    low = at.floor()
    return low.long(), (low.long() + 1).clamp(max=size - 1), at - low, inside


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """Return a convolution whose sampling points are moved by offsets and scaled by a mask."""
    count, channels = input.shape[:2]
    outputs, _, kernel_h, kernel_w = weight.shape
    height, width = offset.shape[2:]
    points = kernel_h * kernel_w
    moved = offset.reshape(count, offset_groups, kernel_h, kernel_w, 2, height, width)
    rows = torch.arange(height)[:, None] * stride_h - pad_h + torch.arange(kernel_h)[:, None, None, None] * dilation_h
    columns = torch.arange(width) * stride_w - pad_w + torch.arange(kernel_w)[:, None, None] * dilation_w
    y, x = moved[:, :, :, :, 0] + rows, moved[:, :, :, :, 1] + columns
    size_h, size_w = input.shape[2:]
    # Half-pixel coordinates of grid_sample, which returns 0 for pixels outside.
    grid = torch.stack([(2 * x + 1) / size_w - 1, (2 * y + 1) / size_h - 1], -1).flatten(0, 1)
    grid = grid.reshape(count * offset_groups, points * height, width, 2)
    planes = input.reshape(count * offset_groups, channels // offset_groups, size_h, size_w)
    values = torch.nn.functional.grid_sample(planes, grid, align_corners=False)
    values = values.reshape(count, offset_groups, -1, points, height, width)
    if use_mask:
        values = values * mask.reshape(count, offset_groups, 1, points, height, width)
    values = values.reshape(count, groups, channels // groups * points, height * width)
    result = weight.reshape(groups, outputs // groups, -1) @ values
    return result.reshape(count, outputs, height, width) + bias[:, None, None]
