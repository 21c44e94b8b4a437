"""Divide a program into the largest convex partitions whose inputs and outputs are tensors."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner

from modelbuild_rules.backend_api.steps.shapes import on_sizes, values_of

SIZE_ACROSS = "a size is an input or output of the partition, and delegates support tensors only"
CHECK = "only checks a size of an input of the partition"
SIZE_UNKNOWN = "an input has a size that depends on values and is not the number of rows of any input"
CONSTANT = "computes with constants only"


class Support(Protocol):
    """Decides which nodes a backend takes (an OperatorSupportBase). `refused` collects the reasons for other nodes, by
    name."""

    refused: dict[str, str]

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool: ...


def proposed(program: ExportedProgram, support: Support) -> list[list[torch.fx.Node]]:
    """Return the partitions, sorted by their first node, with nodes in the program's order."""
    place = {node: number for number, node in enumerate(program.graph.nodes)}
    while True:
        proposed = CapabilityBasedPartitioner(program.graph_module, support, True).propose_partitions()
        partitions = sorted((sorted(each.nodes, key=place.__getitem__) for each in proposed), key=lambda n: place[n[0]])
        refused = {node.name: why for nodes in partitions for node, why in _unfit(program, nodes)}
        if not refused:
            return partitions
        support.refused.update(refused)


def large_enough(partitions: list[list[torch.fx.Node]], support: Support, least: int) -> list[list[torch.fx.Node]]:
    """Return the partitions with at least `least` operators on tensors; refuse other nodes."""
    kept = []
    for nodes in partitions:
        count = sum(node.target is not operator.getitem and _has_tensor(node) for node in nodes)
        if count >= least:
            kept.append(nodes)
        else:
            why = f"in a block of {count} operators, below min_block_size {least}"
            support.refused.update((node.name, why) for node in nodes)
    return kept


def inputs_of(nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """Return a partition's inputs, in the order of their first use."""
    inside = set(nodes)
    return list(dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in inside))


def _unfit(program: ExportedProgram, nodes: list[torch.fx.Node]) -> Iterable[tuple[torch.fx.Node, str]]:
    """Yield nodes that must be excluded because of the partition's inputs or outputs, each with the reason."""
    inside = set(nodes)
    inputs = inputs_of(nodes)
    across = {
        node
        for node in nodes
        if not _is_tensor(node)
        and node.target is not operator.getitem
        and any(user not in inside for user in node.users)
        and (on_sizes(node) or isinstance(node.meta["val"], torch.SymInt))
    }
    across |= {user for node in inputs if not _is_tensor(node) for user in node.users if user in inside}
    if across:
        return [(node, SIZE_ACROSS) for node in across]
    if unknown := _inputs_of_unknown_size(inputs):
        return [(node, SIZE_UNKNOWN) for node in nodes if not unknown.isdisjoint(node.all_input_nodes)]
    if checks := _checks_of_inputs(nodes):
        return [(node, CHECK) for node in checks]
    constants = _constants(program)
    if all(node.name in constants for node in inputs):
        return [(node, CONSTANT) for node in nodes]
    return []


def _inputs_of_unknown_size(inputs: list[torch.fx.Node]) -> set[torch.fx.Node]:
    """Return the inputs with sizes that are computed from counts, none of which is a size of an input: a partition
    could not know the counts."""
    sizes = {node: node.meta["val"].shape for node in inputs if _is_tensor(node)}
    known = {size.node.expr for shape in sizes.values() for size in shape if isinstance(size, torch.SymInt)}
    return {node for node, shape in sizes.items() if not free_unbacked_symbols(shape) <= known}


def _checks_of_inputs(nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """Return the nodes that only check sizes of inputs. They would copy the inputs to the partition's device."""
    needed, own = set[torch.fx.Node](), set[torch.fx.Node]()
    for node in nodes:
        if _has_tensor(node) or not own.isdisjoint(node.all_input_nodes):
            own.add(node)
    for node in reversed(nodes):
        if _has_tensor(node) or node in needed:
            needed.update(node.all_input_nodes)
    return [node for node in nodes if node not in own and node not in needed]


def _constants(program: ExportedProgram) -> set[str]:
    """Return the names of placeholders of constants."""
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    buffers = {name for name, target in signature.inputs_to_buffers.items() if target not in changed}
    return {*signature.inputs_to_parameters, *signature.inputs_to_lifted_tensor_constants, *buffers}


def _has_tensor(node: torch.fx.Node) -> bool:
    return any(isinstance(value, torch.Tensor) for value in values_of(node))


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)
