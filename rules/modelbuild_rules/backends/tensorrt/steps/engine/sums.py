"""Rewrite sums that TensorRT-RTX cannot build to differences of equal value."""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten

_PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.matmul.default, aten.linear.default)
_PARTS = (aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default, aten.slice.Tensor, aten.select.int)
_VIEWS = (
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.expand.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.permute.default,
    aten.transpose.int,
)


def subtract_negatives(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Replace `product + constant` with `product - (-constant)`, if the constant differs by row and the sum is divided.

    TensorRT-RTX fails to build the sum if its parts are transposed (MyelinCheckException in operand.cpp: a size differs
    from the payload's). Seen in TensorRT-RTX 1.6.1. The results have the same bits.
    """
    graph = module.graph
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        constant = next((each for each in node.args if _differs_by_row(module, each)), None)
        if constant is None:
            continue
        product = node.args[0] if constant is node.args[1] else node.args[1]
        if (constant is node.args[0] and node.kwargs) or not _is_product(product) or not _is_divided(node):
            continue
        name = f"{node.name}_negative"
        module.register_buffer(name, -getattr(module, constant.target).detach())
        with graph.inserting_before(node):
            negative = graph.get_attr(name)
        negative.meta = dict(constant.meta)
        node.target, node.args = aten.sub.Tensor, (product, negative)
    graph.eliminate_dead_code()
    module.recompile()
    return module


def _differs_by_row(module: torch.fx.GraphModule, node: Any) -> bool:
    if not isinstance(node, torch.fx.Node) or node.op != "get_attr":
        return False
    value = getattr(module, str(node.target), None)
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.shape[:-1].numel() > 1


def _is_product(node: Any) -> bool:
    while isinstance(node, torch.fx.Node) and node.target in _VIEWS:
        node = node.args[0]
    return isinstance(node, torch.fx.Node) and node.target in _PRODUCTS


def _is_divided(node: torch.fx.Node) -> bool:
    return any(user.target in _PARTS or (user.target in _VIEWS and _is_divided(user)) for user in node.users)
