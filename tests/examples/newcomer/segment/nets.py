"""Nets with one output for each pixel."""

import torch
from torch import Tensor, nn
from torchvision.models.segmentation import lraspp_mobilenet_v3_large


class UNet(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU())
        self.middle = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.last = nn.Conv2d(2 * width, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        down = self.down(image)
        return self.last(torch.cat((down, self.up(self.middle(down))), 1)).softmax(1)


class Road(nn.Module):
    """A net of torchvision, whose output is a table."""

    def __init__(self) -> None:
        super().__init__()
        self.net = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)

    def forward(self, image: Tensor) -> Tensor:
        return self.net(image)["out"].argmax(1)


class Depth(nn.Module):
    """Depth from a stack of resized features."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 5, stride=4, padding=2)
        self.second = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.last = nn.Conv2d(2 * width, 1, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        first = torch.nn.functional.gelu(self.first(image))
        second = torch.nn.functional.interpolate(self.second(first), scale_factor=2, mode="bilinear")
        return self.last(torch.cat((first, second), 1)).exp()
