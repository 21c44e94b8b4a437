"""Detectors of torchvision, as they are: they take a list of pictures and return a list of dictionaries."""

from spread import spread
from torch import Tensor, nn
from torchvision.models import get_model
from weights import repeated


def detector(model: str) -> nn.Module:
    """Return a detector of pictures of 320 x 320 pixels, which returns at most 30 boxes."""
    sizes = {} if model.startswith("ssd") or "_320_" in model else {"min_size": 320, "max_size": 320}
    most = {"box_detections_per_img": 30} if "rcnn" in model else {"detections_per_img": 30}
    return repeated(get_model(model, weights=None, weights_backbone=None, **sizes, **most))


def spread_results(model: nn.Module, images: list[Tensor]) -> None:
    """Spread the results of a detector; the proposals of its first stage differ from their anchors by a quarter."""
    spread(model, images)
    if hasattr(model, "rpn"):
        model.rpn.head.bbox_pred.weight.mul_(0.25)
