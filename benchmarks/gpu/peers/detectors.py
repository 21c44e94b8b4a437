"""The detectors of benchmarks/gpu/cuda_detectors.py: torchvision's and transformers', with random weights that repeat,
so that they compress, and whose results vary as those of a trained model do."""

from __future__ import annotations

import torch
from spread import spread
from torch import Tensor, nn
from torchvision.models import get_model
from torchvision.ops import box_convert
from weights import repeated

DETECTORS = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": (320, 320),
    "fasterrcnn_resnet50_fpn": (480, 640),
    "maskrcnn_resnet50_fpn": (480, 640),
    "retinanet_resnet50_fpn": (480, 640),
    "fcos_resnet50_fpn": (480, 640),
    "ssd300_vgg16": (300, 300),
    "ssdlite320_mobilenet_v3_large": (320, 320),
    "detr": (480, 640),
    "rt_detr": (640, 640),
}
"""The height and width of the picture, which the detector does not resize."""

LIMITS = {"detr": 0.7, "rt_detr": 0.6}
"""Scores above which some of the boxes of a picture are, with random weights."""


class Detector(nn.Module):
    """A detector of one picture, [3, height, width] with values from 0 to 1; returns its tensors, boxes first."""

    def __init__(self, name: str) -> None:
        super().__init__()
        height, width = DETECTORS[name]
        if name.endswith("detr"):
            torch.manual_seed(0)
            self.detector = Queried(name, (height, width))
            return
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


class Queried(nn.Module):
    """A detector of transformers in the form of torchvision's: the queries whose best score is above a limit."""

    def __init__(self, name: str, size: tuple[int, int]) -> None:
        super().__init__()
        from transformers import AutoModelForObjectDetection, ResNetConfig
        from transformers.models.auto import CONFIG_MAPPING

        # By default DETR's configuration asks the hub for the backbone, of which this is the configuration.
        backbone = {"use_timm_backbone": False, "backbone_config": ResNetConfig(out_features=["stage4"])}
        options = backbone if name == "detr" else {}
        self.model = repeated(AutoModelForObjectDetection.from_config(CONFIG_MAPPING[name](**options))).eval()
        with torch.no_grad():
            spread(self.model, torch.rand(1, 3, *size))
        self.softmax = name == "detr"
        self.register_buffer("size", torch.tensor([*size[::-1]] * 2))
        self.limit = LIMITS[name]

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        (image,) = images
        found = self.model(image[None])
        logits = found.logits[0]
        scores, labels = (logits.softmax(-1)[:, :-1] if self.softmax else logits.sigmoid()).max(-1)
        boxes = box_convert(found.pred_boxes[0], "cxcywh", "xyxy") * self.size
        kept = scores > self.limit
        return [{"boxes": boxes[kept], "labels": labels[kept], "scores": scores[kept]}]
