"""Find the order of dimensions of tensors whose sizes depend on values.

ExecuTorch sorts a tensor's strides. It can't compare the strides (n, 1) of a matrix with n columns, since n may be 0.
Each order is right then, so the order for every n above 1 is taken.

Private names of executorch are patched temporarily; executorch_private.py lists them. Of torch: torch.SymInt.node
(expr), checked on torch 2.14.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from executorch.exir import tensor
from executorch.exir.passes import replace_view_copy_with_view_pass
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

_USERS = (tensor, replace_view_copy_with_view_pass)

_SIZES = (2, 1009)
"""Examples of unknown sizes. Strides that they order differently have no known order."""


@contextmanager
def unknown_sizes_ordered() -> Iterator[None]:
    """Let executorch order the dimensions of tensors of unknown sizes while the context lasts."""
    compared = tensor.dim_order_from_stride

    def ordered(strides: Sequence[Any]) -> tuple[int, ...]:
        try:
            return tuple(compared(strides))
        except GuardOnDataDependentSymNode:
            orders = {_order([_example(stride, size) for stride in strides]) for size in _SIZES}
            if len(orders) > 1:
                raise
            return orders.pop()

    with ExitStack() as stack:
        for module in _USERS:
            stack.enter_context(patch.object(module, "dim_order_from_stride", ordered))
        yield


def _order(strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(strides)), key=lambda place: -strides[place]))


def _example(stride: Any, size: int) -> int:
    """Return a stride for an example of all unknown sizes in it."""
    if not isinstance(stride, torch.SymInt):
        return int(stride)
    return int(stride.node.expr.subs(dict.fromkeys(stride.node.expr.free_symbols, size)))
