"""The detectors of benchmarks/gpu/cuda_detectors.py: of torchvision, transformers, ultralytics and effdet, with random
weights that repeat, so that they compress, and whose results vary as those of a trained model do."""

from __future__ import annotations

import os
import sys
import tempfile
from unittest.mock import MagicMock

import torch
from spread import spread
from torch import Tensor, nn
from torchvision.models import get_model
from torchvision.ops import batched_nms, box_convert
from weights import repeated

DETECTORS = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": (320, 320),
    "fasterrcnn_resnet50_fpn": (480, 640),
    "maskrcnn_resnet50_fpn": (480, 640),
    "keypointrcnn_resnet50_fpn": (480, 640),
    "retinanet_resnet50_fpn": (480, 640),
    "fcos_resnet50_fpn": (480, 640),
    "ssd300_vgg16": (300, 300),
    "ssdlite320_mobilenet_v3_large": (320, 320),
    "detr": (480, 640),
    "rt_detr": (640, 640),
    "deformable_detr": (480, 640),
    "d_fine": (640, 640),
    "yolov8n": (640, 640),
    "yolo11n": (640, 640),
    "yolo26n": (640, 640),
    "efficientdet_d0": (512, 512),
}
"""The height and width of the picture, which the detector does not resize."""

LIMITS = {"detr": 0.7, "rt_detr": 0.6, "deformable_detr": 0.6, "d_fine": 0.15, "yolo": 0.8}
"""Scores above which some of the boxes of a picture are, with random weights."""

VARIANTS = {"_x4": (4, "float32"), "_fp16": (1, "float16"), "": (1, "float32")}
"""By the end of a name: how many pictures a call has, and the type of weights and pictures."""


def variant(name: str) -> tuple[str, int, str]:
    """Return a name without its end, how many pictures a call has, and their type."""
    end = next(end for end in VARIANTS if name.endswith(end))
    return name.removesuffix(end), *VARIANTS[end]


class Detector(nn.Module):
    """A detector of pictures, [3, height, width] or [4, 3, height, width], with values from 0 to 1.

    It returns the tensors of all pictures, boxes first; a label of the second picture has 1,000 added, and so on.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        name, _, dtype = variant(name)
        height, width = DETECTORS[name]
        torch.manual_seed(0)
        own = next((kind for prefix, kind in KINDS.items() if name.startswith(prefix)), None)
        self.detector = own(name, (height, width)) if own else proposed(name, (height, width))
        self.to(getattr(torch, dtype))

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        found = self.detector(list(images.reshape(-1, *images.shape[-3:])))
        for number, each in enumerate(found):
            each["labels"] = each["labels"] + 1000 * number
        kinds = [name for name in ("boxes", "labels", "scores", "masks", "keypoints") if name in found[0]]
        return tuple(torch.cat([each[name] for each in found]) for name in kinds)


def proposed(name: str, size: tuple[int, int]) -> nn.Module:
    """Return a detector of torchvision."""
    sizes = {} if name.startswith("ssd") else {"min_size": min(size), "max_size": max(size)}
    detector = repeated(get_model(name, weights=None, weights_backbone=None, **sizes)).eval()
    with torch.no_grad():
        spread(detector, [torch.rand(3, *size)])
        if hasattr(detector, "rpn"):  # proposals that differ from their anchors by a quarter
            detector.rpn.head.bbox_pred.weight.mul_(0.25)
    return detector


class Queried(nn.Module):
    """A detector of transformers in the form of torchvision's: the queries whose best score is above a limit."""

    def __init__(self, name: str, size: tuple[int, int]) -> None:
        super().__init__()
        from transformers import AutoModelForObjectDetection, ResNetConfig
        from transformers.models.auto import CONFIG_MAPPING

        # By default these configurations ask the hub for the backbone, of which this is the configuration.
        stages = {"detr": ["stage4"], "deformable_detr": ["stage2", "stage3", "stage4"]}.get(name)
        backbone = {"use_timm_backbone": False, "backbone_config": ResNetConfig(out_features=stages)}
        options = backbone if stages else {}
        self.model = repeated(AutoModelForObjectDetection.from_config(CONFIG_MAPPING[name](**options))).eval()
        with torch.no_grad():
            spread(self.model, torch.rand(1, 3, *size))
        self.softmax = name == "detr"
        self.register_buffer("size", torch.tensor([*size[::-1]] * 2))
        self.limit = LIMITS[name]

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        found = self.model(torch.stack(images))
        return [self.best(*each) for each in zip(found.logits, found.pred_boxes, strict=True)]

    def best(self, logits: Tensor, boxes: Tensor) -> dict[str, Tensor]:
        scores, labels = (logits.softmax(-1)[:, :-1] if self.softmax else logits.sigmoid()).max(-1)
        boxes = box_convert(boxes, "cxcywh", "xyxy") * self.size
        kept = scores > self.limit
        return {"boxes": boxes[kept], "labels": labels[kept], "scores": scores[kept]}


class Yolo(nn.Module):
    """A detector of ultralytics: boxes of YOLOv8 and YOLO11 by torchvision's batched_nms, of YOLO26 by its own head."""

    def __init__(self, name: str, size: tuple[int, int]) -> None:
        super().__init__()
        os.environ.setdefault("YOLO_CONFIG_DIR", tempfile.gettempdir())
        absent("cv2")
        from ultralytics.nn.tasks import DetectionModel

        self.model = repeated(DetectionModel(f"{name}.yaml", verbose=False)).eval()
        with torch.no_grad():
            for layer in self.model.modules():  # the first biases of classes are those of scores near 0
                if isinstance(layer, nn.Conv2d) and layer.bias is not None:
                    layer.bias.zero_()
            spread(self.model, smooth(size))
            for head in ("cv3", "one2one_cv3"):  # scores of which few are 1
                for level in getattr(self.model.model[-1], head, ()):
                    level[-1].weight.mul_(0.5)
        self.limit = LIMITS["yolo"]

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        return [self.best(found) for found in self.model(torch.stack(images))[0]]

    def best(self, found: Tensor) -> dict[str, Tensor]:
        if found.shape[1] == 6:  # YOLO26: [300, 6], boxes, scores and labels
            kept = found[:, 4] > self.limit
            return {"boxes": found[kept, :4], "labels": found[kept, 5].long(), "scores": found[kept, 4]}
        boxes = box_convert(found[:4].t(), "cxcywh", "xyxy")
        scores, labels = found[4:].max(0)
        kept = scores > self.limit
        boxes, labels, scores = boxes[kept], labels[kept], scores[kept]
        best = batched_nms(boxes, scores, labels, 0.7)[:300]
        return {"boxes": boxes[best], "labels": labels[best], "scores": scores[best]}


class Efficient(nn.Module):
    """A detector of effdet, with the steps of its DetBenchPredict, some of which are TorchScript."""

    def __init__(self, name: str, size: tuple[int, int]) -> None:
        super().__init__()
        absent("cv2", "pycocotools", "pycocotools.coco", "pycocotools.cocoeval")
        from effdet.anchors import Anchors, decode_box_outputs
        from effdet.bench import _post_process
        from effdet.config import get_efficientdet_config
        from effdet.efficientdet import EfficientDet

        self.config = get_efficientdet_config(f"tf_{name}")
        self.model = repeated(EfficientDet(self.config, pretrained_backbone=False)).eval()
        with torch.no_grad():
            spread(self.model, smooth(size))
        self.anchors = Anchors.from_config(self.config)
        self.chosen, self.decoded = _post_process, decode_box_outputs

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        found = self.chosen(*self.model(torch.stack(images)), self.config.num_levels, self.config.num_classes)
        return [self.best(*each) for each in zip(*found, strict=True)]

    def best(self, logits: Tensor, boxes: Tensor, indices: Tensor, labels: Tensor) -> dict[str, Tensor]:
        boxes = self.decoded(boxes, self.anchors.boxes[indices], output_xyxy=True)
        scores = logits[:, 0].sigmoid()
        kept = batched_nms(boxes, scores, labels, 0.5)[: self.config.max_det_per_image]
        return {"boxes": boxes[kept], "labels": labels[kept] + 1, "scores": scores[kept]}


def smooth(size: tuple[int, int]) -> Tensor:
    """Return [1, 3, height, width] with values that change slowly, as a photo's do: a sigmoid of layers that were
    scaled on noise is 1 for a photo."""
    return nn.functional.interpolate(torch.rand(1, 3, 12, 12), size, mode="bicubic").clamp(0, 1)


def absent(*names: str) -> None:
    """Stand in for modules that a library imports, and that a model does not use."""
    for name in names:
        sys.modules.setdefault(name, MagicMock(__spec__=None, __version__="4.0"))


KINDS = {"detr": Queried, "rt_detr": Queried, "deformable_detr": Queried, "d_fine": Queried}
KINDS |= {"yolo": Yolo, "efficientdet": Efficient}
"""Detectors that are not torchvision's, by how their names begin."""
