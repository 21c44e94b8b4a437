"""Divide an edge program into partitions for TensorRT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.export import ExportedProgram

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.cut import inputs_of, large_enough, proposed
from modelbuild_rules.backends.tensorrt.steps.engine.engine import INNER_PROFILES, PROFILES
from modelbuild_rules.backends.tensorrt.steps.engine.half_precision import HALVES, computes_in_float32
from modelbuild_rules.backends.tensorrt.steps.engine.profiles import profiles_of, shapes_of
from modelbuild_rules.backends.tensorrt.steps.engine.settings import compilation_settings
from modelbuild_rules.backends.tensorrt.steps.engine.support import Support

BACKEND = "TensorRTBackend"


class TensorrtPartitioner(Partitioner):
    """Makes the largest convex partitions. `refused` has the reason for each node not taken, by name."""

    def __init__(self, attributes: Mapping[str, Any], failed_nodes: Mapping[str, str]) -> None:
        super().__init__()
        self._failed_nodes = failed_nodes
        self._attributes = attributes
        self._settings = compilation_settings(attributes)
        self._stored: dict[str, torch.Tensor] = {}
        self.refused: dict[str, str] = {}

    def ops_to_not_decompose(self, ep: Any) -> tuple[list[Any], None]:
        """Decompose all operators, and keep the program's constants: executorch's program for `partition` has none."""
        self._stored = {**ep.constants, **ep.state_dict}
        return [], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        program = exported_program
        support = Support(program, self._settings, self._stored)
        support.refused.update(self._failed_nodes)
        support.leave_whole()
        while support.refuse_apart(found := proposed(program, support)):
            pass
        partitions = large_enough(found, support, self._attributes["min_block_size"])
        self.refused = support.refused
        _require_effect(self._attributes["precision"], partitions)
        profiles = profiles_of(program, self._attributes["optimization_profiles"]) if partitions else []
        device = CompileSpec("target_device", self._attributes["target_device"].encode())
        specs = {}
        for number, nodes in enumerate(partitions):
            specs[f"tensorrt_{number}"] = DelegationSpec(BACKEND, [device])
            for node in nodes:
                node.meta["delegation_tag"] = f"tensorrt_{number}"
            for node in inputs_of(nodes):
                shapes = shapes_of(node.meta["val"], profiles)
                if shapes is not None:
                    node.meta[PROFILES] = shapes
            for node in nodes if self._attributes.get("engine") is not None else ():
                if isinstance(node.meta.get("val"), torch.Tensor):
                    node.meta[INNER_PROFILES] = shapes_of(node.meta["val"], profiles)
        _tag_constants(program)
        return PartitionResult(tagged_exported_program=program, partition_tags=specs)


def _require_effect(precision: str, partitions: list[list[torch.fx.Node]]) -> None:
    """Raise StepError if half precision is requested and no operator computes in float32."""
    nodes = [node for nodes in partitions for node in nodes]
    if precision in HALVES and nodes and not any(map(computes_in_float32, nodes)):
        raise StepError(
            f'precision = "{precision}" has no effect: no operator that TensorRT takes computes in float32;'
            ' expected "fp32" or "tf32"'
        )


def _tag_constants(program: ExportedProgram) -> None:
    """Put constants into the partition that uses them, except buffers that the program changes: an engine has no state
    between calls."""
    tag_constant_data(program)
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        if node.op != "placeholder" or node.name in signature.user_inputs:
            continue
        if signature.inputs_to_buffers.get(node.name) in changed:
            node.meta.pop("delegation_tag", None)
        elif "delegation_tag" not in node.meta:
            # executorch omits each constant next to a changed buffer: the 1 of `count + 1`.
            tags = {user.meta.get("delegation_tag") for user in node.users}
            if len(tags) == 1 and None not in tags:
                node.meta["delegation_tag"] = tags.pop()
