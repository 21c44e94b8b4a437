"""Find the nodes for which a program is rewritten, because no backend takes them and no kernel can run them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from modelbuild_rules.program.steps.lowering.delegation import computing
from modelbuild_rules.program.steps.lowering.node_names import origin
from modelbuild_rules.program.steps.lowering.portable import has_kernel, kernel_names, wrong_types
from modelbuild_rules.program.steps.lowering.rewrites.complex_numbers.fourier import fails
from modelbuild_rules.program.steps.lowering.rewrites.replacing import has_form, is_wrong
from modelbuild_rules.program.steps.lowering.rewrites.volumes import is_volume
from modelbuild_rules.program.steps.lowering.stack import Stack, StackBackend


@dataclass(frozen=True)
class Unfit:
    """The nodes for which a program has to be rewritten; false if there are none.

    volumes    nodes of the exported program that convolve volumes
    complex    true if there are operators of complex numbers without a kernel
    replaced   nodes of the exported program with an operator that has a form (replacing.py)
    operators  these operators, of the edge dialect
    nested     true if there are such operators in branches of control flow
    """

    volumes: frozenset[str] = frozenset()
    complex: bool = False
    replaced: frozenset[str] = frozenset()
    operators: frozenset[Any] = frozenset()
    nested: bool = False

    def __bool__(self) -> bool:
        return bool(self.volumes or self.complex or self.operators)


def unfit_nodes(
    program: Any, stack: Stack, refused: Callable[[StackBackend], Mapping[str, str]], tried: set[Any]
) -> Unfit:
    """Return the nodes of an edge program that have to be rewritten. In branches of control flow, only operators with
    forms are. `refused` returns why a backend does not take nodes, by name. `tried` gets the names of the nodes for
    which the program is rewritten: no node is tried twice."""
    kernels = kernel_names()
    named = dict(computing(program.graph_module))
    special = {name: node for name, node in named.items() if "." not in name and (is_volume(node) or _is_complex(node))}
    formed = {name: node for name, node in named.items() if name not in special and _is_formed(node, kernels)}
    doubtful = {**special, **formed}
    for backend in stack.backends:
        if any("." not in name for name in doubtful):
            reasons = refused(backend)
            doubtful = {name: node for name, node in doubtful.items() if "." in name or node.name in reasons}
    unfit = [
        (name, node)
        for name, node in doubtful.items()
        if (name in formed or wrong_types(node) or not has_kernel(node, kernels) or fails(node))
        and _key(name, node) not in tried
    ]
    tried.update(_key(name, node) for name, node in unfit)
    replaced = [(name, node) for name, node in unfit if name in formed]
    return Unfit(
        volumes=frozenset(origin(node) or node.name for name, node in unfit if name in special and is_volume(node)),
        complex=any(name in special and not is_volume(node) for name, node in unfit),
        replaced=frozenset(origin(node) or node.name for name, node in replaced if "." not in name),
        operators=frozenset(node.target for _, node in replaced),
        nested=any("." in name for name, _ in replaced),
    )


def _is_formed(node: Node, kernels: Collection[str]) -> bool:
    """Return whether no kernel computes an operator as eager mode does, and it has a form."""
    return is_wrong(node) or (not has_kernel(node, kernels) and has_form(node.target))


def _key(name: str, node: Node) -> tuple[str, str, bool]:
    return origin(node) or node.name, str(node.target), "." in name


def has_complex_scalars(program: Any) -> bool:
    """Return whether operators of an ATen program have complex numbers as arguments, which executorch can't lower."""
    return any(isinstance(each, complex) for node in program.graph.nodes for each in pytree.tree_leaves(node.args))


def _is_complex(node: Node) -> bool:
    near = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return any(isinstance(each, torch.Tensor) and each.is_complex() for each in pytree.tree_leaves(near))
