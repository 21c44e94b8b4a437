"""Four classifiers of torchvision, with random weights."""

import torchvision


def make(name: str, classes: int = 10):
    return getattr(torchvision.models, name)(weights=None, num_classes=classes)
