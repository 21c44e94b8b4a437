"""Find the order of dimensions of tensors whose sizes depend on values, and of tensors in an order that ExecuTorch
lacks.

ExecuTorch sorts a tensor's strides. It cannot compare the strides (n, 1) of a matrix with n columns, because n may be
0. For 0 each order is right, so this module uses the order for every n above 1.

ExecuTorch knows row-major order and torch.channels_last, and fails on other orders, such as torch.channels_last_3d.
Copies to these orders are made in row-major order, as rewrites/row_major.py makes all copies.

ExecuTorch's `empty` with an order of dimensions has numbers as sizes, so a dynamic size would become the example's.
torch's `empty` takes its place.

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
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.passes import dim_order_ops_registry, memory_format_ops_pass, replace_view_copy_with_view_pass
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


@contextmanager
def dynamic_empty() -> Iterator[None]:
    """Let executorch keep torch's `empty` while the context lasts."""
    mapped = dict(memory_format_ops_pass.DimOrderOpsMap)
    del mapped[exir_ops.edge.aten.empty.memory_format]
    with patch.object(memory_format_ops_pass, "DimOrderOpsMap", mapped):
        yield


@contextmanager
def other_orders_row_major() -> Iterator[None]:
    """Let executorch make copies in row-major order while the context lasts, if it does not know the order."""
    order, kind = memory_format_ops_pass.get_dim_order, dim_order_ops_registry.get_memory_format

    def get_dim_order(asked: Any, dimensions: int) -> Any:
        known = asked in (None, torch.preserve_format, torch.contiguous_format, torch.channels_last)
        return order(asked, dimensions) if known else list(range(dimensions))

    def get_memory_format(asked: Any) -> Any:
        known = asked is None or list(asked) in (list(range(len(asked))), [0, 2, 3, 1])
        return kind(asked) if known else torch.contiguous_format

    with (
        patch.object(memory_format_ops_pass, "get_dim_order", get_dim_order),
        patch.object(dim_order_ops_registry, "get_memory_format", get_memory_format),
    ):
        yield


def _order(strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(strides)), key=lambda place: -strides[place]))


def _example(stride: Any, size: int) -> int:
    """Return a stride for an example of all unknown sizes in it."""
    if not isinstance(stride, torch.SymInt):
        return int(stride)
    return int(stride.node.expr.subs(dict.fromkeys(stride.node.expr.free_symbols, size)))
