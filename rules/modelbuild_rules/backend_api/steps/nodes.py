"""Compute nodes of a program: names, operators, and nodes of the exported program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.graph_module import get_control_flow_submodules

# For backends, which import only backend_api.
from modelbuild_rules.node_references import OPERATOR as OPERATOR
from modelbuild_rules.node_references import node_reference as node_reference
from modelbuild_rules.node_references import operator_reference as operator_reference


def origin(node: Any) -> str | None:
    """Return the name of a node's origin in the exported program; None if unknown."""
    sources = node.meta.get("from_node")
    while sources and sources[0].from_node:  # each pass of decompositions adds its own nodes in front
        sources = sources[0].from_node
    return str(sources[0].name) if sources else None


def computing(graph_module: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the nodes that compute and are not yet lowered, with names; nodes of branches are last."""
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and node.target is not executorch_call_delegate and not _takes_apart(node):
            yield prefix + node.name, node
    for name, submodule, _ in get_control_flow_submodules(graph_module):
        yield from computing(submodule, f"{prefix}{name}.")


def branches(graph_module: Any) -> Iterator[Any]:
    """Yield the graph modules of all branches of control flow, at any depth."""
    for _, submodule, _ in get_control_flow_submodules(graph_module):
        yield submodule
        yield from branches(submodule)


def op_name(node: Any) -> str:
    """Return a node's operator: `aten.add.Tensor`, `operator.mul` (arithmetic on sizes), `higher_order.cond`."""
    name = str(node.target.__name__)
    return name if "." in name else f"{node.target.__module__.strip('_').removeprefix('torch.ops.')}.{name}"


def _takes_apart(node: Any) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"
