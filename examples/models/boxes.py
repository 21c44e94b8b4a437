"""Arithmetic on boxes: (N, 4) float32, each (x1, y1, x2, y2) in pixels from the image's upper left corner."""

from __future__ import annotations

import torch
from torch import Tensor


def anchors(cells: int, stride: int, size: int, scale: float) -> Tensor:
    """The boxes of a square grid of cells, row by row: (cells * cells, 4).

    A cell is `size` wide and `stride` from the next, in pixels of an image that is `scale` times smaller.
    """
    start = torch.arange(cells) * stride
    x, y = start.repeat(cells), start.repeat_interleave(cells)
    return torch.stack([x, y, x + size, y + size], dim=1) * scale


def refined(boxes: Tensor, offsets: Tensor) -> Tensor:
    """Boxes moved by offsets (N, 4) that are fractions of each box's width and height."""
    size = boxes[:, 2:] - boxes[:, :2]
    return boxes + offsets * torch.cat([size, size], dim=1)


def squared(boxes: Tensor) -> Tensor:
    """The smallest squares with the same centres that hold the boxes."""
    centre = (boxes[:, :2] + boxes[:, 2:]) * 0.5
    half = (boxes[:, 2:] - boxes[:, :2]).amax(dim=1, keepdim=True) * 0.5
    return torch.cat([centre - half, centre + half], dim=1)


def intersection_over_union(boxes: Tensor) -> Tensor:
    """(N, N): the overlap of each box with each, 0..1. A box without area overlaps nothing."""
    size = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0)
    area = size[:, 0] * size[:, 1]
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0)
    intersection = shared[..., 0] * shared[..., 1]
    union = area[:, None] + area[None, :] - intersection
    return intersection / union.clamp(min=1e-6)


def non_maximum_suppression(boxes: Tensor, scores: Tensor, threshold: float, rounds: int = 6) -> Tensor:
    """Which boxes greedy non-maximum suppression keeps: (N,) bool. Boxes come best first; a score of 0 is no box.

    Cluster-NMS (Zheng et al., "Enhancing Geometric Factors in Model Learning and Inference for Object Detection and
    Instance Segmentation", arXiv:2005.03572): each round drops every box that a better box still standing overlaps by
    more than `threshold`, starting from all boxes again. That is a fixed graph of tensor operations, where greedy
    suppression is a loop over data. It comes to the greedy result after as many rounds as the longest chain of
    boxes that suppress one another, N at most; with fewer rounds than that, an even number of them errs on the side of
    keeping a box.
    """
    rank = torch.arange(boxes.shape[0], device=boxes.device)
    better = rank[:, None] < rank[None, :]
    present = scores > 0
    suppresses = better & (intersection_over_union(boxes) > threshold) & present[:, None]
    keep = ~suppresses.any(dim=0)
    for _ in range(rounds - 1):
        keep = ~(suppresses & keep[:, None]).any(dim=0)
    return keep & present
