"""Remove calls that an export records and that compute nothing, such as those of a package that `forward` imports."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node


def remove_unused(program: ExportedProgram) -> None:
    """Remove calls of operators without tensors whose results nothing uses. torchvision calls such an operator when it
    is imported."""
    for node in reversed(list(program.graph.nodes)):
        if isinstance(node.target, torch._ops.OpOverload) and not node.users and not _tensors(node):
            program.graph.erase_node(node)
    program.graph_module.recompile()


def _tensors(node: Node) -> bool:
    """Return whether a node has arguments from the graph, or a result that a program computes."""
    computed = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    return bool(node.all_input_nodes) or isinstance(node.meta.get("val"), computed)
