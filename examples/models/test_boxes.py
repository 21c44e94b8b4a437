"""Tests of boxes.py: `modelbuild test //models:boxes_test`."""

from __future__ import annotations

import pytest
import torch
from models.boxes import anchors, intersection_over_union, non_maximum_suppression, refined, squared


def test_anchors_are_a_grid_in_pixels_of_the_photo() -> None:
    grid = anchors(cells=2, stride=2, size=12, scale=2.0)
    assert grid.tolist() == [[0, 0, 24, 24], [4, 0, 28, 24], [0, 4, 24, 28], [4, 4, 28, 28]]


def test_offsets_are_parts_of_the_width_and_the_height() -> None:
    moved = refined(torch.tensor([[10.0, 20.0, 30.0, 60.0]]), torch.tensor([[0.5, -0.25, 0.0, 0.25]]))
    assert moved.tolist() == [[20, 10, 30, 70]]


def test_squares_keep_the_centre() -> None:
    assert squared(torch.tensor([[0.0, 0.0, 4.0, 8.0]])).tolist() == [[-2, 0, 6, 8]]


def test_overlap_is_between_none_and_all() -> None:
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 0.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0]])
    overlap = intersection_over_union(boxes)
    assert overlap[0].tolist() == pytest.approx([1, 1 / 3, 0])
    assert overlap[2].tolist() == [0, 0, 0]


def test_the_best_box_suppresses_what_it_overlaps() -> None:
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.1, 0.0, 2.1, 2.0], [8.0, 8.0, 9.0, 9.0], [0.0, 0.0, 9.0, 9.0]])
    kept = non_maximum_suppression(boxes, torch.tensor([0.9, 0.8, 0.7, 0.0]), threshold=0.5)
    assert kept.tolist() == [True, False, True, False]  # the last one has score 0: no box
