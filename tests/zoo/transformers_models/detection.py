"""Detectors of transformers that need no non-maximum suppression, from configurations."""

from typing import Any

import torch
from spread import spread as spread
from torch import Tensor, nn
from torchvision.ops import box_convert
from transformers import CONFIG_MAPPING, AutoModelForObjectDetection
from weights import repeated

SMALL = {"encoder_layers": 2, "decoder_layers": 2, "num_labels": 8}
OPTIONS: dict[str, dict[str, Any]] = {"detr": SMALL | {"use_timm_backbone": False, "init_std": 1.0}, "rt_detr": SMALL}

LIMITS = {"detr": 0.155, "rt_detr": 0.5}
"""Scores above which some of the boxes of a picture are, with random weights."""


class Detector(nn.Module):
    """A detector without non-maximum suppression, and the boxes whose score is above a limit."""

    def __init__(self, model: str) -> None:
        super().__init__()
        config = CONFIG_MAPPING[model](**OPTIONS[model])
        self.model = repeated(AutoModelForObjectDetection.from_config(config))
        self.limit = LIMITS[model]

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        found = self.model(image)
        scores, labels = self.scores(found.logits[0])
        size = torch.tensor([image.shape[3], image.shape[2]] * 2)
        boxes = box_convert(found.pred_boxes[0], "cxcywh", "xyxy") * size
        kept = scores > self.limit
        return {"boxes": boxes[kept], "scores": scores[kept], "labels": labels[kept]}

    def scores(self, logits: Tensor) -> Any:
        """Return the best class of each box and its score. DETR has a last class for no object, RT-DETR has none."""
        if self.model.config.model_type == "detr":
            return logits.softmax(-1)[:, :-1].max(-1)
        return logits.sigmoid().max(-1)
