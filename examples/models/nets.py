"""The three networks of MTCNN: proposal, refinement, output.

Zhang, Zhang, Li, Qiao: "Joint Face Detection and Alignment using Multitask Cascaded Convolutional Networks", 2016
(arXiv:1604.02878), figure 2. Layers have the names of the published weights, so that their state dicts load unchanged.

The input of each is RGB with values 0..255, (N, 3, H, W) float32; the first output is the face's probability. Box
offsets are (dx1, dy1, dx2, dy2) as fractions of the input box's width and height.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def _normalized(image: Tensor) -> Tensor:
    """Map 0..255 to about -1..1, as in the training of the weights."""
    return (image - 127.5) * (1 / 128)


def _face_probability(logits: Tensor) -> Tensor:
    """Return the face's part of the softmax over (background, face) in dimension 1: (N, 2, ...) to (N, 1, ...)."""
    return torch.sigmoid(logits[:, 1:] - logits[:, :1])


def _flattened(features: Tensor) -> Tensor:
    """(N, C, H, W) to (N, W * H * C): the order of the dense layers' weights, which were trained on transposed maps."""
    return features.permute(0, 3, 2, 1).flatten(1)


def _activated(prelu: nn.PReLU, features: Tensor) -> Tensor:
    """Return the PReLU of (N, C), computed in (N, C, 1, 1): XNNPACK supports only four dimensions."""
    return prelu(features[:, :, None, None]).flatten(1)


class ProposalNet(nn.Module):
    """P-Net: fully convolutional, one result for each cell of 12 x 12 pixels, 2 pixels apart."""

    CELL = 12
    STRIDE = 2

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 10, 3)
        self.prelu1 = nn.PReLU(10)
        self.pool1 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv2 = nn.Conv2d(10, 16, 3)
        self.prelu2 = nn.PReLU(16)
        self.conv3 = nn.Conv2d(16, 32, 3)
        self.prelu3 = nn.PReLU(32)
        self.conv4_1 = nn.Conv2d(32, 2, 1)
        self.conv4_2 = nn.Conv2d(32, 4, 1)

    @staticmethod
    def cells(side: int) -> int:
        """Return the number of cells along `side` pixels."""
        return (side - 1) // 2 - 4

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """(N, 3, H, W) to probabilities (N, 1, h, w) and box offsets (N, 4, h, w): cells(H) x cells(W) results."""
        x = self.pool1(self.prelu1(self.conv1(_normalized(image))))
        x = self.prelu2(self.conv2(x))
        x = self.prelu3(self.conv3(x))
        return _face_probability(self.conv4_1(x)), self.conv4_2(x)


class RefinementNet(nn.Module):
    """R-Net: scores crops of 24 x 24 pixels."""

    SIZE = 24

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 28, 3)
        self.prelu1 = nn.PReLU(28)
        self.pool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2 = nn.Conv2d(28, 48, 3)
        self.prelu2 = nn.PReLU(48)
        self.pool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3 = nn.Conv2d(48, 64, 2)
        self.prelu3 = nn.PReLU(64)
        self.dense4 = nn.Linear(576, 128)
        self.prelu4 = nn.PReLU(128)
        self.dense5_1 = nn.Linear(128, 2)
        self.dense5_2 = nn.Linear(128, 4)

    def forward(self, crops: Tensor) -> tuple[Tensor, Tensor]:
        """(N, 3, 24, 24) to probabilities (N, 1) and box offsets (N, 4)."""
        x = self.pool1(self.prelu1(self.conv1(_normalized(crops))))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.prelu3(self.conv3(x))
        x = _activated(self.prelu4, self.dense4(_flattened(x)))
        return _face_probability(self.dense5_1(x)), self.dense5_2(x)


class OutputNet(nn.Module):
    """O-Net: scores crops of 48 x 48 pixels and finds five landmarks: eyes, nose, corners of the mouth."""

    SIZE = 48

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3)
        self.prelu1 = nn.PReLU(32)
        self.pool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.prelu2 = nn.PReLU(64)
        self.pool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3 = nn.Conv2d(64, 64, 3)
        self.prelu3 = nn.PReLU(64)
        self.pool3 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv4 = nn.Conv2d(64, 128, 2)
        self.prelu4 = nn.PReLU(128)
        self.dense5 = nn.Linear(1152, 256)
        self.prelu5 = nn.PReLU(256)
        self.dense6_1 = nn.Linear(256, 2)
        self.dense6_2 = nn.Linear(256, 4)
        self.dense6_3 = nn.Linear(256, 10)

    def forward(self, crops: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(N, 3, 48, 48) to probabilities (N, 1), box offsets (N, 4) and landmarks (N, 5, 2).

        Landmarks are (x, y) as fractions of the crop, from its upper left corner.
        """
        x = self.pool1(self.prelu1(self.conv1(_normalized(crops))))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.pool3(self.prelu3(self.conv3(x)))
        x = self.prelu4(self.conv4(x))
        x = _activated(self.prelu5, self.dense5(_flattened(x)))
        landmarks = self.dense6_3(x).reshape(-1, 2, 5).permute(0, 2, 1)  # the weights give five x, then five y
        return _face_probability(self.dense6_1(x)), self.dense6_2(x), landmarks
