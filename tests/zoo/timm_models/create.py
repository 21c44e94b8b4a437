"""Image models of timm."""

import timm
from torch import nn
from weights import repeated


def create(model: str) -> nn.Module:
    return repeated(timm.create_model(model, pretrained=False))
