"""Constants of a library: the operations of their recipes (backend_api/steps/recipes.py), their layouts and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils.fusion import fuse_conv_bn_weights

from modelbuild_rules.backend_api.steps.recipes import Recipe, evaluate

if TYPE_CHECKING:
    from modelbuild_rules.backends.cuda.documents import Layout


def evaluated(recipe: Recipe, weights: Mapping[str, Tensor]) -> Tensor:
    """Return the tensor of a recipe."""
    return evaluate(recipe, weights, _OPERATIONS).detach()


def layout(tensor: Tensor) -> Layout:
    """Return the dtype, the sizes, the strides and the offset of a tensor, and the number of bytes of its storage."""
    bytes = tensor.untyped_storage().nbytes()
    return [str(tensor.dtype), list(tensor.shape), list(tensor.stride()), tensor.storage_offset(), bytes]


def storage(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor's storage."""
    stored = tensor.untyped_storage()
    return bytes(torch.empty(0, dtype=torch.uint8).set_(stored).numpy()) if stored.nbytes() else b""


def _folded(part: int, weight: Tensor, *others: Tensor | float | None) -> Tensor:
    """Return the weight (0) or the bias (1) of a convolution with the batch normalization after it, computed in
    float64."""
    wide = [each.double() if isinstance(each, Tensor) else each for each in (weight, *others)]
    return fuse_conv_bn_weights(*wide)[part].to(weight.dtype)


def _with_channels(weight: Tensor, more: int) -> Tensor:
    """Return a weight, [outputs, channels of a group, *kernel], with additional channels of zeros."""
    return torch.nn.functional.pad(weight, [0, 0] * (weight.dim() - 2) + [0, more])


def _channels_last(weight: Tensor) -> Tensor:
    """Return a weight, [outputs, channels of a group, *kernel], whose channels are adjacent in memory."""
    outputs, channels = weight.shape[:2]
    first = 0 if channels == 1 and outputs > 1 else 1
    return weight.movedim(first, -1).contiguous().movedim(-1, first)


_OPERATIONS: Mapping[str, Callable[..., Tensor]] = {
    "folded weight": lambda *given: _folded(0, *given),
    "folded bias": lambda *given: _folded(1, *given),
    "with channels": _with_channels,
    "channels last": _channels_last,
}
