"""Shrink an image and crop squares from it, by tensor operations that every backend supports."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def area_weights(source: int, target: int) -> Tensor:
    """Return weights (target, source) float32 that shrink a line of pixels, as interpolate(mode="area") does.

    Pixel i of the result is the mean of the pixels from floor(i * source / target) to
    ceil((i + 1) * source / target).
    """
    start = torch.arange(target)[:, None] * source // target
    stop = -(torch.arange(1, target + 1)[:, None] * -source // target)
    pixel = torch.arange(source)[None, :]
    covered = ((pixel >= start) & (pixel < stop)).float()
    return covered / covered.sum(dim=1, keepdim=True)


def shrunk(image: Tensor, weights: Tensor) -> Tensor:
    """Shrink (N, C, S, S) to (N, C, T, T) by `weights` (T, S), along each side in turn."""
    lines = functional.linear(image, weights).transpose(2, 3)
    return functional.linear(lines, weights).transpose(2, 3)


def crops(image: Tensor, boxes: Tensor, size: int, samples: int = 2) -> Tensor:
    """Return squares `boxes` (N, 4; pixels) of `image` (1, C, H, W), resampled to size x size: (N, C, size, size).

    As RoIAlign does (He et al., "Mask R-CNN", arXiv:1703.06870): each pixel is the mean of samples x samples points,
    each interpolated bilinearly. Pixels outside the image are 0.
    """
    height, width = image.shape[2:]
    n, side = boxes.shape[0], size * samples
    steps = (torch.arange(side, device=boxes.device) + 0.5) / side
    x = boxes[:, 0:1] + (boxes[:, 2:3] - boxes[:, 0:1]) * steps
    y = boxes[:, 1:2] + (boxes[:, 3:4] - boxes[:, 1:2]) * steps
    # grid_sample expects one grid per image, so the crops form one tall grid. -1 and 1 are the image's edges.
    x = (x * (2 / width) - 1)[:, None, :].expand(n, side, side)
    y = (y * (2 / height) - 1)[:, :, None].expand(n, side, side)
    grid = torch.stack([x, y], dim=3).reshape(1, n * side, side, 2)
    points = functional.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    pixels = functional.avg_pool2d(points, samples)
    return pixels.reshape(image.shape[1], n, size, size).transpose(0, 1)
