"""The operator of images' grid_sampler kernel: aten's, under a name that ExecuTorch has no kernel of.

ExecuTorch's kernel computes other values than eager mode for coordinates that are NaN or infinite.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

NAMESPACE = "modelbuild"

_NAME = "grid_sampler_2d"
_ARGUMENTS = "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners"


@cache
def register() -> None:
    """Register the operator, for eager mode too, and its out variant, which the kernel implements."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    _KEPT.append(library)
    library.define(f"{_NAME}{_ARGUMENTS}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    library.define(f"{_NAME}.out{_ARGUMENTS}, *, Tensor(a!) out) -> Tensor(a!)")
    library.impl(_NAME, torch.ops.aten.grid_sampler_2d.default, "CPU")
    torch.library.register_fake(f"{NAMESPACE}::{_NAME}", _shape, lib=library)


_KEPT: list[Any] = []  # registrations end with their library


def _shape(x: Tensor, grid: Tensor, *_: Any) -> Tensor:
    return x.new_empty(*x.shape[:2], *grid.shape[1:-1])
