"""Find operators on quantized values. A backend takes an operator with its quantize and dequantize nodes, or not at
all."""

from __future__ import annotations

import torch

QUANTIZED = "it computes with quantized values"

_NAMESPACES = ("quantized_decomposed", "torchao")
_MOVES = frozenset(
    f"{each}{copy}"
    for each in ("expand", "permute", "squeeze", "t", "transpose", "unsqueeze", "view")
    for copy in ("", "_copy")
)
"""Operators that only move values, such as the transposition of a linear layer's weight."""


def quantized(graph: torch.fx.Graph) -> set[str]:
    """Return the names of the ATen nodes that read quantized weights, or are between dequantize and quantize nodes,
    alone or with an activation."""
    values: set[torch.fx.Node] = set()  # dequantized
    weights = of_weights(graph)
    found: dict[torch.fx.Node, None] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        read = set(node.all_input_nodes)
        if _of_quantization(node, "dequantize"):
            if node not in weights:
                values.add(node)
        elif read & weights.keys() or (read & (values | found.keys()) and _is_requantized(node)):
            found[node] = None
    return {node.name for node in found}


def of_weights(graph: torch.fx.Graph) -> dict[torch.fx.Node, torch.fx.Node]:
    """Return the nodes that dequantize weights or move dequantized weights, each with the dequantizing node."""
    found: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in graph.nodes:
        if _of_quantization(node, "dequantize") and node.all_input_nodes[0].op != "call_function":
            found[node] = node
        elif _name(node) in _MOVES and (moved := [found[each] for each in node.all_input_nodes if each in found]):
            found[node] = moved[0]
    return found


def _is_requantized(node: torch.fx.Node) -> bool:
    users = list(node.users)
    return _is_only_quantized(users) or (len(users) == 1 and _is_only_quantized(list(users[0].users)))


def _is_only_quantized(users: list[torch.fx.Node]) -> bool:
    return bool(users) and all(_of_quantization(user, "quantize", "choose_qparams") for user in users)


def _of_quantization(node: torch.fx.Node, *beginnings: str) -> bool:
    namespace, _, name = _qualified(node).partition("::")
    return namespace in _NAMESPACES and name.startswith(beginnings)


def _name(node: torch.fx.Node) -> str:
    return _qualified(node).partition("::")[2]


def _qualified(node: torch.fx.Node) -> str:
    """Return an operator's name with its namespace, without an overload; '' for a function of Python."""
    target = node.target
    return target._schema.name if isinstance(target, torch._ops.OpOverload) else ""
