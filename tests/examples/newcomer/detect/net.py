"""A detector of bright squares, without anchors: a grid of centers, boxes and scores, and the best boxes after NMS."""

import torch
from torch import Tensor, nn


class Detector(nn.Module):
    def __init__(self, width: int = 16, classes: int = 3, kept: int = 20) -> None:
        super().__init__()
        self.kept = kept
        self.backbone = nn.Sequential(
            *self.block(3, width), *self.block(width, 2 * width), *self.block(2 * width, 4 * width)
        )
        self.scores = nn.Conv2d(4 * width, classes, 1)
        self.boxes = nn.Conv2d(4 * width, 4, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.SiLU()]

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.backbone(image * 2 - 1)
        height, width = features.shape[2:]
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centers = torch.stack((x, y), -1).reshape(-1, 2) * 8 + 4
        sides = self.boxes(features).flatten(2).transpose(1, 2)[0].exp() * 8
        boxes = torch.cat((centers - sides[:, :2], centers + sides[:, 2:]), 1)
        scores, labels = self.scores(features).flatten(2)[0].sigmoid().max(0)
        scores, order = scores.topk(self.kept)
        boxes, labels = boxes[order], labels[order]
        return boxes, scores * self.unsuppressed(boxes), labels

    def unsuppressed(self, boxes: Tensor) -> Tensor:
        """Return 1 for a box that no box before it overlaps by more than half, else 0."""
        low = torch.maximum(boxes[:, None, :2], boxes[:, :2])
        high = torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
        both = (high - low).clamp(min=0).prod(2)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        overlaps = both / (area[:, None] + area - both) > 0.5
        return (~overlaps.tril(-1).any(1)).float()


def pictures(count):
    """Yield pictures with a bright square."""
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        picture = torch.rand(1, 3, 96, 96, generator=generator) / 2
        top, left = torch.randint(64, (2,), generator=generator).tolist()
        picture[..., top : top + 24, left : left + 24] += 0.5
        yield {"image": picture}
