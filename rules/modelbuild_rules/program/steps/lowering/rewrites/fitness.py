"""Find the nodes for which a program is rewritten, because no backend takes them and no kernel can run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from modelbuild_rules.program.steps.lowering.delegation import computing
from modelbuild_rules.program.steps.lowering.node_names import origin
from modelbuild_rules.program.steps.lowering.partitioning import Partitioning
from modelbuild_rules.program.steps.lowering.portable import has_kernel, kernel_names, wrong_types
from modelbuild_rules.program.steps.lowering.rewrites.volumes import is_volume

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import OfferedBackend


class Unfit(Exception):
    """Raised before a program is divided, if it has to be rewritten first.

    volumes  nodes of the exported program that convolve volumes
    complex  true if there are operators of complex numbers without a kernel
    """

    def __init__(self, volumes: frozenset[str], complex: bool) -> None:
        super().__init__(volumes, complex)
        self.volumes = volumes
        self.complex = complex


def check_fit(program: Any, entries: Sequence[OfferedBackend], backends: Mapping[int, Partitioning]) -> None:
    """Raise Unfit if nodes of an edge program have to be rewritten. Nodes of branches of control flow are not."""
    named = computing(program.graph_module)
    doubtful = [node for name, node in named if "." not in name and (is_volume(node) or _is_complex(node))]
    for number, backend in backends.items():
        if doubtful:
            refused = backend.refused(program, entries[number]["attributes"])
            doubtful = [node for node in doubtful if node.name in refused]
    doubtful = [node for node in doubtful if wrong_types(node) or not has_kernel(node, kernel_names())]
    if doubtful:
        volumes = frozenset(origin(node) or node.name for node in doubtful if is_volume(node))
        raise Unfit(volumes, not all(map(is_volume, doubtful)))


def has_complex_scalars(program: Any) -> bool:
    """Return whether operators of an ATen program have complex numbers as arguments, which executorch can't lower."""
    return any(isinstance(each, complex) for node in program.graph.nodes for each in pytree.tree_leaves(node.args))


def _is_complex(node: Node) -> bool:
    near = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return any(isinstance(each, torch.Tensor) and each.is_complex() for each in pytree.tree_leaves(near))
