"""Forms of pooling operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _adaptive_mean(x: Tensor, sizes: Sequence[int]) -> Any:
    """Return the means of boxes, one dimension after the other."""
    for dim, wanted in zip((-3, -2, -1), sizes, strict=True):
        size = x.shape[dim]
        if size % wanted == 0:
            x = x.unflatten(dim, (wanted, size // wanted)).mean(dim)
        else:
            ranges = [(part * size // wanted, -(-(part + 1) * size // wanted)) for part in range(wanted)]
            x = torch.cat([x.narrow(dim, begin, end - begin).mean(dim, True) for begin, end in ranges], dim)
    return x


FORMS: Mapping[Any, Callable[..., Any]] = {aten._adaptive_avg_pool3d.default: _adaptive_mean}
