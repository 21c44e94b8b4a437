"""Image models of timm."""

import timm
from torch import nn
from weights import repeated


def create(model: str) -> nn.Module:
    return repeated(timm.create_model(model, pretrained=False))


def features(model: str) -> nn.Module:
    """Return a backbone whose outputs are a list of feature maps."""
    return repeated(timm.create_model(model, pretrained=False, features_only=True))
