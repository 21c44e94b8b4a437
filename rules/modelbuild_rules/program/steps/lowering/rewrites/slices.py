"""Let executorch's passes compute the shape of slices of tensors whose size depends on values.

torch computes the shape of `slice` for such tensors, but not of `slice_copy`, which replaces it in executorch's edge
dialect: its default compares the sizes and fails. So `slice_copy` gets the shape of `slice`.

Private names used, checked on torch 2.14.0: torch._subclasses.fake_impls.register_op_impl, which extends torch's table
of shape functions, and torch._subclasses.fake_impls.slice_forward.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_impls import register_op_impl, slice_forward


@cache
def register() -> None:
    """Register the shape function of `slice_copy` in this process."""

    def slice_copy(mode: Any, func: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        view = slice_forward(mode, func, x, *args, **kwargs)
        return torch.empty_like(view, memory_format=torch.contiguous_format)

    register_op_impl(torch.ops.aten.slice_copy.Tensor)(slice_copy)
