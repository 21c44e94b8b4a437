"""The detector in eager PyTorch and exported, on the astronaut's photo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import models.detector
import pytest
import torch
from models.boxes import intersection_over_union, non_maximum_suppression
from torch import Tensor

FACE = torch.tensor([177.0, 60, 267, 174])
"""x1, y1, x2, y2 on the photo as it is."""


def shifted(dx: int, dy: int) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    return lambda photo: photo.roll((dy, dx), dims=(2, 3)), FACE + torch.tensor([dx, dy, dx, dy])


def shrunk_to(side: int) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    def edit(photo: Tensor) -> Tensor:
        small = torch.nn.functional.interpolate(photo, size=side, mode="area")
        return torch.nn.functional.pad(small, (0, 512 - side, 0, 512 - side))

    return edit, FACE * side / 512


EDITS: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "as it is": shifted(0, 0),
    "a little to the left": shifted(-3, 5),
    "far to the right": shifted(100, 100),
    "up": shifted(37, -50),
    "flipped": (lambda photo: photo.flip(3), torch.tensor([512 - FACE[2], FACE[1], 512 - FACE[0], FACE[3]])),
    "dark": (lambda photo: photo * 0.3, FACE),
    "small": shrunk_to(300),
    "tiny": shrunk_to(208),
}


def overlap(box: Tensor, other: Tensor) -> float:
    return float(intersection_over_union(torch.stack([box, other]))[0, 1])


@pytest.mark.parametrize("edit", EDITS)
@torch.no_grad()
def test_the_face_is_found_where_it_is(detector: Any, photo: Tensor, edit: str) -> None:
    change, expected = EDITS[edit]
    boxes, scores, landmarks = detector(change(photo).contiguous())
    assert boxes.shape == (1, 4)
    assert scores.tolist() == pytest.approx([1], abs=0.02)
    assert overlap(boxes[0], expected) > 0.8
    assert landmarks.shape == (1, 5, 2)
    assert (landmarks[0] > boxes[0, :2]).all()
    assert (landmarks[0] < boxes[0, 2:]).all()


@pytest.mark.parametrize("image", [torch.zeros(1, 3, 512, 512), torch.full((1, 3, 512, 512), 255.0)])
@torch.no_grad()
def test_nothing_is_found_where_nothing_is(detector: Any, image: Tensor) -> None:
    boxes, scores, landmarks = detector(image)
    assert (boxes.shape, scores.shape, landmarks.shape) == ((0, 4), (0,), (0, 5, 2))


@torch.no_grad()
def test_four_faces_are_four(detector: Any, photo: Tensor) -> None:
    """Two photos and their mirror images, side by side."""
    row = torch.cat([photo, photo.flip(3)], dim=3)
    four = torch.nn.functional.interpolate(torch.cat([row, row], dim=2), size=512, mode="area")
    boxes, scores, _ = detector(four)
    faces = {(int(x1 + x2) // 512, int(y1 + y2) // 512) for x1, y1, x2, y2 in boxes[scores > 0.99].tolist()}
    assert faces == {(0, 0), (1, 0), (0, 1), (1, 1)}
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)


@torch.no_grad()
def test_suppression_has_rounds_enough(detector: Any, photo: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """On photos the result equals that of greedy suppression."""
    calls = []

    def checked(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
        keep = non_maximum_suppression(boxes, scores, threshold)
        calls.append(torch.equal(keep, non_maximum_suppression(boxes, scores, threshold, rounds=len(boxes))))
        return keep

    monkeypatch.setattr(models.detector, "non_maximum_suppression", checked)
    for change, _ in EDITS.values():
        detector(change(photo).contiguous())
    assert calls == [True] * 3 * len(EDITS)


@torch.no_grad()
def test_the_exported_detector_is_the_eager_one(detector: Any, photo: Tensor) -> None:
    exported = torch.export.export(detector, (photo,), strict=False).module()
    images = [photo, photo.flip(3), photo.roll((37, -50), dims=(2, 3)).contiguous(), torch.zeros_like(photo)]
    for image in images:
        for ours, expected in zip(exported(image), detector(image), strict=True):
            assert torch.equal(ours, expected)
