"""Arithmetic on boxes: against plain loops over numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models.boxes import anchors, intersection_over_union, non_maximum_suppression, refined, squared
from torch import Tensor

# Small integers: boxes overlap much, and no overlap equals a threshold by rounding.
edge = st.integers(0, 12)
side = st.integers(1, 12)
box = st.builds(lambda x, y, width, height: (x, y, x + width, y + height), edge, edge, side, side)
many = st.lists(box, min_size=1, max_size=40)
Boxes = list[tuple[int, int, int, int]]


def overlap(a: list[float], b: list[float]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def greedy(boxes: list[list[float]], present: list[bool], threshold: float) -> list[bool]:
    kept: list[int] = []
    for i, here in enumerate(present):
        if here and all(overlap(boxes[i], boxes[j]) <= threshold for j in kept):
            kept.append(i)
    return [i in kept for i in range(len(boxes))]


def suppressed(boxes: Boxes, present: list[bool], threshold: float, rounds: int) -> tuple[Tensor, Tensor]:
    """Return the results of non_maximum_suppression and of the greedy loop."""
    rows = torch.tensor(boxes, dtype=torch.float32)
    scores = torch.linspace(0.9, 0.1, len(boxes)) * torch.tensor(present)
    expected = greedy(rows.tolist(), present, threshold)
    return non_maximum_suppression(rows, scores, threshold, rounds), torch.tensor(expected)


@given(many, st.data(), st.sampled_from([0.21, 0.41, 0.71]))
def test_suppression_is_greedy_when_it_has_as_many_rounds_as_boxes(
    boxes: Boxes, data: st.DataObject, threshold: float
) -> None:
    present = data.draw(st.lists(st.booleans(), min_size=len(boxes), max_size=len(boxes)))
    ours, expected = suppressed(boxes, present, threshold, len(boxes))
    assert ours.tolist() == expected.tolist()


@given(many, st.integers(1, 6))
def test_too_few_rounds_err_on_one_side(boxes: Boxes, rounds: int) -> None:
    ours, expected = suppressed(boxes, [True] * len(boxes), 0.41, rounds)
    more, less = (ours, expected) if rounds % 2 == 0 else (expected, ours)
    assert not (less & ~more).any()


def test_a_chain_of_boxes_takes_a_round_for_each_link() -> None:
    """Each box overlaps only the next: greedy suppression keeps every other one."""
    boxes = [(10 * i, 0, 10 * i + 20, 10) for i in range(9)]
    expected = [i % 2 == 0 for i in range(9)]
    assert suppressed(boxes, [True] * 9, 0.3, 9)[0].tolist() == expected
    assert suppressed(boxes, [True] * 9, 0.3, 4)[0].tolist() != expected


def test_a_row_without_score_suppresses_nothing_and_is_not_kept() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 10], [0, 0, 0, 0]])
    keep = non_maximum_suppression(boxes, torch.tensor([0.0, 0.9, 0.0]), 0.5)
    assert keep.tolist() == [False, True, False]


@given(many)
def test_overlaps_are_those_of_each_pair(boxes: Boxes) -> None:
    rows = torch.tensor(boxes, dtype=torch.float32)
    expected = torch.tensor([[overlap(list(a), list(b)) for b in boxes] for a in boxes])
    torch.testing.assert_close(intersection_over_union(rows), expected)


def test_a_box_without_area_overlaps_nothing() -> None:
    boxes = torch.tensor([[0.0, 0, 0, 0], [5, 5, 5, 9], [-1, -1, 10, 10]])
    assert intersection_over_union(boxes)[:2].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_offsets_are_fractions_of_the_box() -> None:
    boxes = torch.tensor([[10.0, 20, 30, 60]])
    assert refined(boxes, torch.tensor([[0.5, -0.25, 0, 1]])).tolist() == [[20, 10, 30, 100]]


@pytest.mark.parametrize("given_box", [[10.0, 20, 30, 60], [-5.0, 0, 35, 10], [3.0, 3, 8, 8]])
def test_a_square_holds_its_box_about_the_same_centre(given_box: list[float]) -> None:
    (square,) = squared(torch.tensor([given_box])).tolist()
    width, height = given_box[2] - given_box[0], given_box[3] - given_box[1]
    assert [square[2] - square[0], square[3] - square[1]] == [max(width, height)] * 2
    assert [square[0] + square[2], square[1] + square[3]] == [given_box[0] + given_box[2], given_box[1] + given_box[3]]


def test_anchors_go_row_by_row() -> None:
    assert anchors(2, 2, 12, 3.0).tolist() == [[0, 0, 36, 36], [6, 0, 42, 36], [0, 6, 36, 42], [6, 6, 42, 42]]
