"""The three networks, with their pretrained weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.detector import pyramid_sizes
from models.nets import ProposalNet, _activated, _face_probability
from torch import nn

CELL, STRIDE = ProposalNet.CELL, ProposalNet.STRIDE


@torch.no_grad()
def test_an_answer_of_the_proposal_net_depends_on_its_cell_only(detector: Any, photo: torch.Tensor) -> None:
    """So its box is the cell, as anchors() assumes."""
    image = photo[..., 60:120, 180:240]
    probability, offsets = detector.pnet(image)
    for row, column in ((0, 0), (3, 11), (20, 7), (probability.shape[2] - 1, probability.shape[3] - 1)):
        top, left = row * STRIDE, column * STRIDE
        alone = detector.pnet(image[..., top : top + CELL, left : left + CELL])
        torch.testing.assert_close(alone[0].flatten(), probability[..., row, column].flatten())
        torch.testing.assert_close(alone[1].flatten(), offsets[..., row, column].flatten())


@pytest.mark.parametrize("side", [12, 13, 14, 20, 33, 92, 154])
@torch.no_grad()
def test_the_proposal_net_has_as_many_cells_as_it_says(side: int) -> None:
    cells = ProposalNet.cells(side)
    probability, offsets = ProposalNet()(torch.zeros(1, 3, side, side))
    assert (probability.shape, offsets.shape) == ((1, 1, cells, cells), (1, 4, cells, cells))


@torch.no_grad()
def test_the_other_nets_know_a_face_and_where_it_is(detector: Any, photo: torch.Tensor) -> None:
    face, wall = photo[..., 50:178, 160:288], photo[..., 0:128, 350:478]
    both = torch.cat([face, wall])
    small, large = (nn.functional.interpolate(both, size=side, mode="area") for side in (24, 48))
    judged, _ = detector.rnet(small)
    sure, _, landmarks = detector.onet(large)
    assert judged.flatten().gt(0.7).tolist() == [True, False]
    assert sure.flatten().gt(0.99).tolist() == [True, False]
    left_eye, right_eye, nose, left_mouth, right_mouth = landmarks[0].tolist()
    assert left_eye[0] < nose[0] < right_eye[0]
    assert left_mouth[0] < right_mouth[0]
    assert max(left_eye[1], right_eye[1]) < nose[1] < min(left_mouth[1], right_mouth[1])


def test_the_probability_is_the_softmax() -> None:
    logits = torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(0)) * 5
    torch.testing.assert_close(_face_probability(logits), logits.softmax(dim=1)[:, 1:])


def test_activation_by_way_of_four_dimensions_is_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    prelu = nn.PReLU(7)
    prelu.weight.data = torch.randn(7, generator=generator)
    features = torch.randn(5, 7, generator=generator)
    assert torch.equal(_activated(prelu, features), prelu(features))


def test_the_pyramid_starts_at_the_smallest_face_and_ends_at_a_cell() -> None:
    sizes = pyramid_sizes(512, 40, 0.6)
    assert sizes == [154, 92, 55, 33, 20]
    assert sizes[0] == round(512 * CELL / 40)
    assert pyramid_sizes(24, 24, 0.5) == [12]
