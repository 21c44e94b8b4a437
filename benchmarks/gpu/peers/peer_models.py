"""Twelve models that benchmarks/gpu/cuda_peers.py times, for export and for the processes that run torch.

Their parameters and buffers are constants, which compress for a transfer; the time of a kernel hardly depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Peer:
    """A model: `create` returns its module, `shape` is that of one sample, without the batch; token ids are below
    `vocabulary`."""

    create: Callable[[], nn.Module]
    shape: tuple[int, ...]
    vocabulary: int = 0


class Edsr(nn.Module):
    """EDSR baseline, factor 2 (Lim et al. 2017): 16 residual blocks of 64 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 64, 3, padding=1)
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1))
            for _ in range(16)
        )
        self.end = nn.Conv2d(64, 64, 3, padding=1)
        self.tail = nn.Sequential(nn.Conv2d(64, 256, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(64, 3, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        first = x = self.head(x)
        for block in self.body:
            x = x + block(x)
        result: Tensor = self.tail(self.end(x) + first)
        return result


class UNetBlock(nn.Module):
    """A residual block with attention of a diffusion U-Net (Rombach et al. 2022): 320 channels, 8 heads."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(32, 320) for _ in range(3))
        self.convolutions = nn.ModuleList(nn.Conv2d(320, 320, 3, padding=1) for _ in range(2))
        self.qkv, self.out = nn.Linear(320, 960), nn.Linear(320, 320)
        self.first, self.second = nn.Linear(320, 1280), nn.Linear(1280, 320)

    def forward(self, x: Tensor) -> Tensor:
        hidden = x
        for norm, convolution in zip(self.norms, self.convolutions, strict=False):
            hidden = convolution(nn.functional.silu(norm(hidden)))
        x = x + hidden
        batch, channels, height, width = x.shape
        tokens = self.norms[2](x).flatten(2).transpose(1, 2)
        q, k, v = (each.unflatten(2, (8, -1)).transpose(1, 2) for each in self.qkv(tokens).chunk(3, 2))
        seen = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        tokens = tokens + self.out(seen)
        tokens = tokens + self.second(nn.functional.gelu(self.first(tokens)))
        return tokens.transpose(1, 2).reshape(batch, channels, height, width)


class First(nn.Module):
    """A model of transformers that returns its first output."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)[0]
        return result


class LastFeatures(nn.Module):
    """A backbone of transformers that returns its deepest feature map."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x).feature_maps[-1]
        return result


def torchvision_model(name: str) -> nn.Module:
    import torchvision

    made: nn.Module = torchvision.models.get_model(name, weights=None)
    return made


def timm_model(name: str) -> nn.Module:
    import timm

    made: nn.Module = timm.create_model(name, pretrained=False)
    return made


def bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    return First(BertModel(BertConfig(attn_implementation="sdpa", return_dict=False), add_pooling_layer=False))


def whisper() -> nn.Module:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    sizes: dict[str, Any] = {"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536}
    return First(WhisperEncoder(WhisperConfig(**sizes, attn_implementation="sdpa", return_dict=False)))


def rt_detr() -> nn.Module:
    from transformers import RTDetrResNetBackbone, RTDetrResNetConfig

    return LastFeatures(RTDetrResNetBackbone(RTDetrResNetConfig(out_features=["stage4"])))


IMAGE = (3, 224, 224)
PEERS = {
    "resnet50": Peer(lambda: torchvision_model("resnet50"), IMAGE),
    "bert_base": Peer(bert, (128,), 30522),
    "vit_b_16": Peer(lambda: torchvision_model("vit_b_16"), IMAGE),
    "convnext_atto": Peer(lambda: timm_model("convnext_atto"), IMAGE),
    "mobilenet_v3_small": Peer(lambda: torchvision_model("mobilenet_v3_small"), IMAGE),
    "edsr": Peer(Edsr, (3, 96, 96)),
    "efficientnet_b0": Peer(lambda: torchvision_model("efficientnet_b0"), IMAGE),
    "swin_t": Peer(lambda: torchvision_model("swin_t"), IMAGE),
    "rt_detr_backbone": Peer(rt_detr, (3, 640, 640)),
    "unet_block": Peer(UNetBlock, (320, 64, 64)),
    "whisper_encoder": Peer(whisper, (80, 3000)),
    "vit_tiny": Peer(lambda: timm_model("vit_tiny_patch16_224"), IMAGE),
}


class Half(nn.Module):
    """A model that computes in float16, and returns float32."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner.half()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x.half() if x.is_floating_point() else x)
        return result.float()


def make(name: str, precision: str = "fp32", constant: bool = True) -> nn.Module:
    """Return a model for evaluation in "fp32", "tf32" or "fp16". Its parameters are constants, or random and rounded to
    multiples of about their deviation, so that they compress."""
    torch.manual_seed(0)
    module = PEERS[name].create().eval()
    with torch.no_grad():
        for each in [*module.parameters(), *(module.buffers() if constant else ())]:
            if not each.is_floating_point():
                continue
            if constant:
                each.fill_(1 / math.sqrt(max(each.numel(), 1)))
                continue
            if each.dim() > 1 and not each.any():  # as of ViT's head; all outputs would be zero
                each.normal_(std=1 / 32)
            if each.numel() > 1 and float(each.std()):
                step = 2.0 ** round(math.log2(float(each.std())))
                each.copy_((each / step).round() * step)
    return Half(module) if precision == "fp16" else module


def inputs(name: str, batch: int) -> Tensor:
    """Return a batch of inputs."""
    torch.manual_seed(1)
    peer = PEERS[name]
    if peer.vocabulary:
        return torch.randint(peer.vocabulary, (batch, *peer.shape))
    return torch.randn(batch, *peer.shape)
