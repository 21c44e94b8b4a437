"""Partitioning for the CUDA delegate, whose libraries AOTInductor compiles with or without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from executorch.backends.cuda.cuda_backend import CudaBackend

from modelbuild.errors import did_you_mean
from modelbuild_rules.backend_api.steps.aten import operator_names
from modelbuild_rules.backend_api.steps.partitioning import AttributeProblem, Partitioning
from modelbuild_rules.backend_api.steps.shapes import own_sizes
from modelbuild_rules.backends.cuda.steps.generate.lowerable import refused
from modelbuild_rules.backends.cuda.steps.generate.partitioner import Partitions, compile_specs
from modelbuild_rules.backends.cuda.steps.generate.support import NO_KERNEL


class _CudaPartitioning(Partitioning):
    ids = (CudaBackend.__name__,)
    passes = (own_sizes,)
    on_gpu = True
    generates_code = True

    def common(self, attributes: Mapping[str, Any]) -> str:
        """Return the GPU on which partitions share their state."""
        return str(attributes["target_device"])

    def partitioner(self, attributes: Mapping[str, Any], failed_nodes: Mapping[str, str]) -> Partitions:
        """Return the partitioner for the attributes. Raises StepError for an unknown operator."""
        known = operator_names()
        for op in attributes["exclude_ops"]:
            if op not in known:
                raise AttributeProblem(
                    "exclude_ops", f"no operator '{op}'; expected one like aten.add.Tensor{did_you_mean(op, known)}"
                )
        return Partitions(attributes, failed_nodes)

    def failure(self, program: Any, attributes: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the nodes that AOTInductor cannot compile."""
        return refused(program, compile_specs(attributes), NO_KERNEL)

    def refusal(self, partitioner: Partitions, node: Any) -> str:
        """Return why the partitioner did not take a node."""
        return partitioner.refused.get(node.name, "not offered")


PARTITIONING = _CudaPartitioning()
