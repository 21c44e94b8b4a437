"""The models of benchmarks/cpu.py, with random weights, for export and for the processes that run the other ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn


def timm_model(name: str) -> nn.Module:
    import timm

    return timm.create_model(name)


def lraspp() -> nn.Module:
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    return One(lraspp_mobilenet_v3_large(weights=None, weights_backbone=None), "out")


def segformer() -> nn.Module:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    return One(SegformerForSemanticSegmentation(SegformerConfig()), "logits")


def distilbert() -> nn.Module:
    from transformers import DistilBertConfig, DistilBertModel

    return One(DistilBertModel(DistilBertConfig(attn_implementation="sdpa")), "last_hidden_state")


class One(nn.Module):
    """A module with one result of another."""

    def __init__(self, inner: nn.Module, name: str) -> None:
        super().__init__()
        self.inner, self.name = inner, name

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[self.name]


@dataclass(frozen=True)
class Model:
    """A model, and the shape of its input: float32, or token ids below `vocabulary`."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...] = (1, 3, 224, 224)
    vocabulary: int = 0


TIMM = ("resnet18", "resnet50", "convnext_atto", "vit_tiny_patch16_224", "swin_tiny_patch4_window7_224")
MOBILE = ("regnety_008", "mobilenetv3_small_100", "efficientnet_b0", "mobilenetv4_conv_small")
MODELS = {
    **{name: Model(lambda name=name: timm_model(name)) for name in (*TIMM, *MOBILE)},
    "lraspp_mobilenet_v3_large": Model(lraspp, (1, 3, 320, 320)),
    "segformer_b0": Model(segformer, (1, 3, 256, 256)),
    "distilbert": Model(distilbert, (1, 128), 30522),
}


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name].make().eval()


def example(name: str) -> Tensor:
    torch.manual_seed(1)
    model = MODELS[name]
    return torch.randint(model.vocabulary, model.shape) if model.vocabulary else torch.randn(model.shape)


def inputs(name: str) -> Iterator[dict[str, Tensor]]:
    """Yield inputs that show the ranges of activations."""
    torch.manual_seed(2)
    for _ in range(8):
        yield {"x": torch.randn(MODELS[name].shape)}
