"""Find the operators of an exported program that draw random numbers.

Private names used, checked on torch 2.14.0: OpOverload._schema. Not patched.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node


def random_nodes(program: ExportedProgram) -> list[Node]:
    """Return the nodes that draw random numbers. A dropout in evaluation mode draws no numbers."""
    graphs = (each.graph for each in program.graph_module.modules() if isinstance(each, torch.fx.GraphModule))
    return [node for graph in graphs for node in graph.nodes if node.op == "call_function" and _draws(node)]


def trains(node: Node) -> bool:
    """Return whether a node draws random numbers because it acts as in training, such as dropout."""
    return "train" in _arguments(node) or "training" in _arguments(node) or "dropout_p" in _arguments(node)


def _draws(node: Node) -> bool:
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    given = _arguments(node)
    trained = given.get("train", given.get("training", True))
    probability = given.get("dropout_p", given.get("dropout", given.get("p") if "train" in given else None))
    return trained is not False and probability != 0


def _arguments(node: Node) -> dict[str, Any]:
    """Return the arguments of an operator's call by name, with their defaults."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {}
    found = {each.name: each.default_value for each in schema.arguments if each.has_default_value()}
    names = (each.name for each in schema.arguments)
    return found | dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
