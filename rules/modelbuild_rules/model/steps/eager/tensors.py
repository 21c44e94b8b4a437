"""Convert arrays to tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from modelbuild_runtime import Port


def to_tensor(array: np.ndarray, port: Port) -> torch.Tensor:
    """Return a tensor with the array's values, the port's type, and the memory layout that the program expects.

    The tensor is a copy, since a model may write to its inputs.
    """
    order = port.dim_order or tuple(range(array.ndim))
    inner = torch.from_numpy(np.array(array.transpose(order), order="C", copy=True))
    back = [order.index(axis) for axis in range(array.ndim)]
    tensor = inner.permute(back) if back else inner
    return tensor.to(torch.bfloat16) if port.dtype == "bfloat16" else tensor


def to_array(value: Any) -> np.ndarray:
    """Return an output of a model as an array; bfloat16 as float32, which represents each value exactly."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    tensor = value.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return np.ascontiguousarray(tensor.numpy()).reshape(tuple(tensor.shape))
