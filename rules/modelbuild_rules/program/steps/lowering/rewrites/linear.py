"""Restore linear layers that no backend takes because their number of rows depends on values.

executorch decomposes them to a transposed copy of the weights and `addmm`, whose portable kernel is a plain loop.
executorch's kernel of `linear` reads the weights without a copy and multiplies in blocks.
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir.dialects._ops import ops
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.infra.pass_base import PassResult

edge = ops.edge.aten


def has_unknown_sizes(program: Any) -> bool:
    """Return whether sizes of an ATen program depend on values."""
    return any("unbacked_bindings" in node.meta for node in program.graph.nodes)


def whole_linear(module: torch.fx.GraphModule) -> PassResult:
    """Replace products of a matrix of unknown height and transposed weights with `linear` (a pass on edge graphs)."""
    changed = False
    for node in list(module.graph.nodes):
        found = _layer(node)
        if found is not None:
            with module.graph.inserting_before(node):
                made = module.graph.call_function(edge.linear.default, found)
            made.meta = dict(node.meta)
            node.replace_all_uses_with(made)
            transposed = node.args[-1]
            module.graph.erase_node(node)
            if not transposed.users:
                module.graph.erase_node(transposed)
            changed = True
    module.recompile()
    return PassResult(module, changed)


def _layer(node: Node) -> tuple[Any, ...] | None:
    """Return the input, the weights and the bias of a product that is a linear layer of unknown height."""
    if node.target == edge.addmm.default and not node.kwargs and node.args[0].meta["val"].dim() == 1:
        bias, x, transposed = node.args
        layer: tuple[Any, ...] = (x, transposed.args[0], bias) if transposed.args else ()
    elif node.target == edge.mm.default:
        x, transposed = node.args
        layer = (x, transposed.args[0]) if transposed.args else ()
    else:
        return None
    if not layer or not free_unbacked_symbols(x.meta["val"]):
        return None
    turned = transposed.target == edge.permute_copy.default and [d % 2 for d in transposed.args[1]] == [1, 0]
    return layer if turned or transposed.target == edge.t_copy.default else None
