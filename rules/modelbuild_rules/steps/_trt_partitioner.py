"""Cuts an edge program into partitions for TensorRT."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner

from modelbuild.step import StepError
from modelbuild_rules.steps._trt_engine import PROFILES
from modelbuild_rules.steps._trt_profiles import profiles_of, shapes_of
from modelbuild_rules.steps._trt_settings import compilation_settings
from modelbuild_rules.steps._trt_support import Support, on_sizes

BACKEND = "TensorRTBackend"

SIZE_ACROSS = "a size goes into or out of the partition, and delegates take and give tensors only"
CONSTANT = "computes with constants only"


class TensorrtPartitioner(Partitioner):
    """Partitions are as large as they can be, and convex. `refused` says why a node was left out, by name."""

    def __init__(self, attributes: Mapping[str, Any], left_out: Mapping[str, str]) -> None:
        super().__init__()
        self._left_out = left_out
        self._attributes = attributes
        self._settings = compilation_settings(attributes)
        self.refused: dict[str, str] = {}

    def ops_to_not_decompose(self, ep: Any) -> tuple[list[Any], None]:
        return [], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        program = exported_program
        support = Support(program, self._settings)
        support.refused.update(self._left_out)
        partitions = _proposed(program, support)
        partitions = self._large_enough(partitions, support)
        self.refused = support.refused
        if self._attributes["require_full_compilation"]:
            _require_all(program, partitions, support)
        profiles = profiles_of(program, self._attributes["optimization_profiles"]) if partitions else []
        device = CompileSpec("target_device", self._attributes["target_device"].encode())
        specs = {}
        for number, nodes in enumerate(partitions):
            specs[f"tensorrt_{number}"] = DelegationSpec(BACKEND, [device])
            for node in nodes:
                node.meta["delegation_tag"] = f"tensorrt_{number}"
            for node in _inputs(nodes):
                shapes = shapes_of(node.meta["val"], profiles)
                if shapes is not None:
                    node.meta[PROFILES] = shapes
        tag_constant_data(program)
        _keep_changed_buffers(program)
        return PartitionResult(tagged_exported_program=program, partition_tags=specs)

    def _large_enough(self, partitions: list[list[torch.fx.Node]], support: Support) -> list[list[torch.fx.Node]]:
        least = self._attributes["min_block_size"]
        kept = []
        for nodes in partitions:
            count = sum(node.target is not operator.getitem and not on_sizes(node) for node in nodes)
            if count >= least:
                kept.append(nodes)
            else:
                why = f"in a block of {count} operators, below min_block_size {least}"
                support.refused.update((node.name, why) for node in nodes)
        return kept


def _proposed(program: ExportedProgram, support: Support) -> list[list[torch.fx.Node]]:
    """The partitions, each in the program's order; the first is the one that begins first."""
    place = {node: number for number, node in enumerate(program.graph.nodes)}
    while True:
        proposed = CapabilityBasedPartitioner(program.graph_module, support, True).propose_partitions()
        partitions = sorted((sorted(each.nodes, key=place.__getitem__) for each in proposed), key=lambda n: place[n[0]])
        refused = {node.name: why for nodes in partitions for node, why in _unfit(program, nodes)}
        if not refused:
            return partitions
        support.refused.update(refused)


def _unfit(program: ExportedProgram, nodes: list[torch.fx.Node]) -> Iterable[tuple[torch.fx.Node, str]]:
    """Nodes that have to be left out for what crosses the partition's border."""
    inside = set(nodes)
    inputs = _inputs(nodes)
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
    constants = _constants(program)
    if all(node.name in constants for node in inputs):
        return [(node, CONSTANT) for node in nodes]
    return []


def _inputs(nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
    inside = set(nodes)
    return list(dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in inside))


def _constants(program: ExportedProgram) -> set[str]:
    """Names of placeholders that stand for what never changes."""
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    buffers = {name for name, target in signature.inputs_to_buffers.items() if target not in changed}
    return {*signature.inputs_to_parameters, *signature.inputs_to_lifted_tensor_constants, *buffers}


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _require_all(program: ExportedProgram, partitions: list[list[torch.fx.Node]], support: Support) -> None:
    left = [node for node in program.graph.nodes if node.op == "call_function" and "delegation_tag" not in node.meta]
    taken = {node for nodes in partitions for node in nodes}
    out = [node for node in left if node not in taken]
    if out:
        node = out[0]
        why = support.refused.get(node.name, "not offered")
        raise StepError(
            f"require_full_compilation: TensorRT does not take {len(out)} of {len(left)} nodes, the first is"
            f" {getattr(node.target, '__name__', node.target)} (node {node.name}): {why}"
        )
    if len(partitions) > 1:
        raise StepError(f"require_full_compilation: the program falls into {len(partitions)} partitions; expected one")


def _keep_changed_buffers(program: ExportedProgram) -> None:
    """A buffer that the program changes stays outside: an engine keeps nothing from one call to the next."""
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        if node.op == "placeholder" and signature.inputs_to_buffers.get(node.name) in changed:
            node.meta.pop("delegation_tag", None)
