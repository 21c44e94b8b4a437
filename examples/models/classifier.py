"""A small image classifier with random weights from the seed in its target."""

from __future__ import annotations

from torch import Tensor, nn


class Classifier(nn.Module):
    """(N, 3, H, W) RGB, 0..255 -> probabilities of ten classes (N, 10). H and W are at least 8."""

    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.head = nn.Linear(2 * width, classes)

    def forward(self, image: Tensor) -> Tensor:
        features = self.features(image / 255).mean(dim=(2, 3))
        return self.head(features).softmax(dim=1)
