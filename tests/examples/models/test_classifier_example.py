"""The small classifier."""

from __future__ import annotations

import torch
from models.classifier import Classifier


@torch.no_grad()
def test_it_gives_a_distribution_for_each_image() -> None:
    probabilities = Classifier().eval()(torch.rand(2, 3, 64, 64) * 255)
    assert probabilities.shape == (2, 10)
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(2))
