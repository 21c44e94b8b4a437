"""The detectors of benchmarks/gpu/cuda_detectors.py: torchvision's, with random weights that repeat, so that they
compress, and whose results vary as those of a trained model do."""

from __future__ import annotations

import torch
from spread import spread
from torch import Tensor, nn
from torchvision.models import get_model
from weights import repeated

DETECTORS = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": (320, 320),
    "fasterrcnn_resnet50_fpn": (480, 640),
    "maskrcnn_resnet50_fpn": (480, 640),
    "retinanet_resnet50_fpn": (480, 640),
    "fcos_resnet50_fpn": (480, 640),
    "ssd300_vgg16": (300, 300),
    "ssdlite320_mobilenet_v3_large": (320, 320),
}
"""The height and width of the picture, which the detector does not resize."""


class Detector(nn.Module):
    """A detector of one picture, [3, height, width] with values from 0 to 1; returns its tensors, boxes first."""

    def __init__(self, name: str) -> None:
        super().__init__()
        height, width = DETECTORS[name]
        sizes = {} if name.startswith("ssd") else {"min_size": min(height, width), "max_size": max(height, width)}
        torch.manual_seed(0)
        self.detector = repeated(get_model(name, weights=None, weights_backbone=None, **sizes)).eval()
        with torch.no_grad():
            spread(self.detector, [torch.rand(3, height, width)])
            if hasattr(self.detector, "rpn"):  # proposals that differ from their anchors by a quarter
                self.detector.rpn.head.bbox_pred.weight.mul_(0.25)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        (found,) = self.detector([image])
        return tuple(found[name] for name in ("boxes", "labels", "scores", "masks") if name in found)
