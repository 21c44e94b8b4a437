"""A detector with non-maximum suppression at its end."""

import torch
from spread import spread as spread
from torch import Tensor, nn
from torchvision.ops import batched_nms

BINS = 8
"""Distances that the distribution of a side is over, in cells."""


class Yolo(nn.Module):
    """A detector of YOLOv8's form: boxes from distances to four sides, and non-maximum suppression by class."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 32, 64, 128)
        layers = zip((3, *widths), widths, strict=False)
        self.body = nn.ModuleList(nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.SiLU()) for i, o in layers)
        self.sides = nn.ModuleList(nn.Conv2d(width, 4 * BINS, 1) for width in widths[2:])
        self.classes = nn.ModuleList(nn.Conv2d(width, 8, 1) for width in widths[2:])

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        boxes, scores = [], []
        for number, layer in enumerate(self.body):
            image = layer(image)
            if number >= 2:
                boxes.append(self.boxes(self.sides[number - 2](image), 2 ** (number + 1)))
                scores.append(self.classes[number - 2](image).sigmoid().flatten(2)[0].t())
        best, labels = torch.cat(scores).max(1)
        found = best > 0.6
        boxes, best, labels = torch.cat(boxes)[found], best[found], labels[found]
        kept = batched_nms(boxes, best, labels, 0.5)[:50]
        return {"boxes": boxes[kept], "scores": best[kept], "labels": labels[kept]}

    def boxes(self, sides: Tensor, stride: int) -> Tensor:
        """Return boxes in pixels from the distributions of distances to their sides, in cells."""
        height, width = sides.shape[2:]
        bins = sides.reshape(4, BINS, height * width).softmax(1)
        left, up, right, down = (bins * torch.arange(float(BINS))[:, None]).sum(1) * stride
        y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
        x, y = x.flatten() * stride, y.flatten() * stride
        return torch.stack([x - left, y - up, x + right, y + down], 1)
