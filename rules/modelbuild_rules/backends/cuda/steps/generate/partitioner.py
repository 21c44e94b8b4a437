"""Divide an edge program into partitions for the CUDA delegate: the nodes that AOTInductor takes and no backend has.

Upstream tags constants, buffers that a partition mutates, and unused constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from executorch.backends.aoti import aoti_partitioner
from executorch.backends.cuda.cuda_backend import CudaBackend
from executorch.backends.cuda.cuda_partitioner import CudaPartitioner
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import Partitioner, PartitionResult
from torch.export import ExportedProgram

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.cut import large_enough, proposed
from modelbuild_rules.backend_api.steps.nodes import node_reference, origin
from modelbuild_rules.backends.cuda.steps.generate.support import DATA_DEPENDENT, LOWERED, Support

_UNDECOMPOSED = frozenset({"aten.scaled_dot_product_attention.default"})
"""Operators for which executorch has a Triton kernel, or which Inductor decomposes better."""


class Partitions(Partitioner):
    """Offers upstream's partitioner the supported nodes. `refused` has the reason for each node not taken, by name."""

    def __init__(self, attributes: Mapping[str, Any], failed_nodes: Mapping[str, str]) -> None:
        super().__init__()
        self._attributes = attributes
        self._excluded = frozenset(attributes["exclude_ops"])
        self._failed_nodes = failed_nodes
        self.refused: dict[str, str] = {}

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[Any], None]:
        kept = _UNDECOMPOSED - self._excluded
        return [node.target for node in ep.graph.nodes if str(node.target) in kept], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        choice = self._attributes["data_dependent_ops"]
        support = Support(exported_program, self._excluded, choice == "take", self._failed_nodes)
        if choice == "error":
            _refuse_data_dependent(exported_program, support.refused)
        partitions = large_enough(proposed(exported_program, support), support, self._attributes["min_block_size"])
        self.refused = {name: why for name, why in support.refused.items() if why != LOWERED}
        allowed = [node for nodes in partitions for node in nodes]
        specs = compile_specs(self._attributes)
        with patch.object(aoti_partitioner, "get_non_lowered_nodes", lambda _: allowed):
            return CudaPartitioner(specs).partition(exported_program)


def compile_specs(attributes: Mapping[str, Any]) -> list[CompileSpec]:
    """Return the data for the compiler."""
    return [
        CudaBackend.generate_method_name_compile_spec("forward"),
        CompileSpec("target_device", attributes["target_device"].encode()),
        *(CompileSpec(key, value.encode()) for key, value in attributes["specs"].items()),
    ]


def _refuse_data_dependent(program: ExportedProgram, refused: Mapping[str, str]) -> None:
    for node in program.graph.nodes:
        if refused.get(node.name) == DATA_DEPENDENT:
            what = f"{node.target.__name__} ({node_reference(node.name, origin(node))})"
            raise StepError(
                f'data_dependent_ops = "error": the result of {what} has a size that depends on values; expected no'
                ' such operator, or data_dependent_ops = "take" or "fallback"'
            )
