"""The classifier without its head: vectors that are near for similar images."""

from __future__ import annotations

from classifier import Classifier
from torch import Tensor


class Embedding(Classifier):
    """(N, 3, H, W) RGB, 0..255 -> vectors of length 1 (N, 32). The seed that draws the classifier's weights draws equal
    ones here."""

    def forward(self, image: Tensor) -> Tensor:
        features = self.features(image / 255).mean(dim=(2, 3))
        return features / features.norm(dim=1, keepdim=True)
