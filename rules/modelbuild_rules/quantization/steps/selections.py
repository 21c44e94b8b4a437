"""Find the operators that select or order rows by their values, such as a detector's non-maximum suppression.

A small error before such an operator exchanges rows after it, so errors are comparable only in front of the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

_SELECTING = frozenset(
    (
        "aten.topk.default",
        "aten.sort.default",
        "aten.sort.stable",
        "aten.argsort.default",
        "aten.nonzero.default",
        "aten.nonzero_numpy.default",
        "aten.masked_select.default",
        "aten._unique2.default",
        "aten.unique_dim.default",
        "aten.unique_consecutive.default",
        "torchvision.nms.default",
    )
)
_INDEX = "aten.index.Tensor"


@dataclass(frozen=True)
class Selections:
    """The selecting operators of a module.

    first   names of the nodes that depend on no other selection
    outputs for each result of the module, the operator of a selection that it depends on, or ''
    """

    first: Sequence[str]
    outputs: Sequence[str]

    @classmethod
    def of(cls, module: GraphModule) -> Selections:
        after: dict[Node, str] = {}
        first = []
        for node in module.graph.nodes:
            found = next((after[each] for each in node.all_input_nodes if each in after), "")
            if not found and _selects(node):
                first.append(node.name)
                found = str(node.target).split(".")[1]
            if found:
                after[node] = found
        (output,) = module.graph.find_nodes(op="output")
        results = [each for each in pytree.tree_leaves(output.args[0]) if each is not None]
        return cls(first, [after.get(each, "") if isinstance(each, Node) else "" for each in results])


def _selects(node: Node) -> bool:
    if str(node.target) != _INDEX:
        return str(node.target) in _SELECTING
    indices: Any = node.args[1]
    values = [each.meta.get("val") for each in indices if isinstance(each, Node)]
    return any(isinstance(each, torch.Tensor) and each.dtype == torch.bool for each in values)


class Tapped(Interpreter):
    """Runs a module, and keeps the tensors that nodes read: floating-point ones, or else all."""

    def __init__(self, module: GraphModule, nodes: Sequence[str]) -> None:
        super().__init__(module)
        self._nodes = nodes
        self.kept: dict[str, list[torch.Tensor]] = {}

    def run_node(self, n: Node) -> Any:
        if n.name in self._nodes:
            args, _ = self.fetch_args_kwargs_from_env(n)
            tensors = [each.clone() for each in pytree.tree_leaves(args) if isinstance(each, torch.Tensor)]
            self.kept[n.name] = [each for each in tensors if each.is_floating_point()] or tensors
        return super().run_node(n)


def named(kept: Mapping[str, Sequence[torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the kept tensors by names for reports, such as `before topk`."""
    for node, tensors in kept.items():
        for number, tensor in enumerate(tensors):
            yield f"before {node}" + (f" {number}" if len(tensors) > 1 else ""), tensor
