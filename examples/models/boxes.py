"""Arithmetic on boxes: (N, 4) float32, each (x1, y1, x2, y2) in pixels from the image's upper left corner."""

from __future__ import annotations

import torch
from torch import Tensor


def anchors(cells: int, stride: int, size: int, scale: float) -> Tensor:
    """Return the boxes of a square grid of cells, row by row: (cells * cells, 4).

    Cells are `size` wide and `stride` apart, in pixels of an image that is `scale` times smaller.
    """
    start = torch.arange(cells) * stride
    x, y = start.repeat(cells), start.repeat_interleave(cells)
    return torch.stack([x, y, x + size, y + size], dim=1) * scale


def refined(boxes: Tensor, offsets: Tensor) -> Tensor:
    """Return boxes moved by offsets (N, 4), which are fractions of each box's width and height."""
    size = boxes[:, 2:] - boxes[:, :2]
    return boxes + offsets * torch.cat([size, size], dim=1)


def squared(boxes: Tensor) -> Tensor:
    """Return the smallest squares around the boxes, with the same centres."""
    centre = (boxes[:, :2] + boxes[:, 2:]) * 0.5
    half = (boxes[:, 2:] - boxes[:, :2]).amax(dim=1, keepdim=True) * 0.5
    return torch.cat([centre - half, centre + half], dim=1)


def intersection_over_union(boxes: Tensor) -> Tensor:
    """Return the overlap of each pair of boxes (N, N), 0..1. A box without area overlaps nothing."""
    size = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0)
    area = size[:, 0] * size[:, 1]
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0)
    intersection = shared[..., 0] * shared[..., 1]
    union = area[:, None] + area[None, :] - intersection
    return intersection / union.clamp(min=1e-6)


def non_maximum_suppression(boxes: Tensor, scores: Tensor, threshold: float, rounds: int = 6) -> Tensor:
    """Return the boxes that greedy non-maximum suppression keeps: (N,) bool. Best boxes first; a score of 0 is no box.

    Cluster-NMS (Zheng et al., "Enhancing Geometric Factors in Model Learning and Inference for Object Detection and
    Instance Segmentation", arXiv:2005.03572): each round starts from all boxes, and drops every box that a better
    remaining box overlaps by more than `threshold`. This is a fixed graph of tensor operations, while greedy
    suppression is a loop over data. The results are equal after as many rounds as the longest chain of boxes that
    suppress each other, at most N. After fewer rounds, an even number of rounds may keep a box too many, but never
    drops one too many.
    """
    rank = torch.arange(boxes.shape[0], device=boxes.device)
    better = rank[:, None] < rank[None, :]
    present = scores > 0
    suppresses = better & (intersection_over_union(boxes) > threshold) & present[:, None]
    keep = ~suppresses.any(dim=0)
    for _ in range(rounds - 1):
        keep = ~(suppresses & keep[:, None]).any(dim=0)
    return keep & present
