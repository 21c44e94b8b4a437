"""Models of torchvision: classification, segmentation, video and optical flow."""

import torch
from torch import Tensor, nn
from torchvision.models import get_model
from weights import repeated


def create(model: str) -> nn.Module:
    return repeated(get_model(model, weights=None))


def dense(model: str) -> nn.Module:
    """Return a model whose outputs are a dictionary."""
    return repeated(get_model(model, weights=None, weights_backbone=None))


class Flow(nn.Module):
    """RAFT's last estimate after four updates."""

    def __init__(self) -> None:
        super().__init__()
        self.model = repeated(get_model("raft_small", weights=None))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.stack(self.model(first, second, num_flow_updates=4))[-1]
