"""Partitioning for TensorRT, whose engines are built for the device's compute capabilities, with or without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.nodes import computing
from modelbuild_rules.backend_api.steps.partitioning import Partitioning
from modelbuild_rules.backend_api.steps.shapes import own_sizes
from modelbuild_rules.backends.tensorrt.steps.engine.bisection import nodes_at_fault
from modelbuild_rules.backends.tensorrt.steps.engine.engine import PROFILES, ConversionError, build
from modelbuild_rules.backends.tensorrt.steps.engine.lowering import lowered
from modelbuild_rules.backends.tensorrt.steps.engine.partitioner import BACKEND, TensorrtPartitioner
from modelbuild_rules.backends.tensorrt.steps.engine.pooling import in_batches, round_down
from modelbuild_rules.backends.tensorrt.steps.engine.settings import compilation_settings
from modelbuild_rules.backends.tensorrt.steps.engine.support import Support
from modelbuild_rules.backends.tensorrt.steps.engine.torch_tensorrt_private import import_torch_tensorrt

TOLERANCES = {"fp16": 2e-2, "bf16": 1e-1}
"""Tolerance of reduced precision, relative to a result's greatest magnitude."""


ADVICE: Mapping[str, str] = {
    "aten.bucketize.Tensor": "(x[..., None] > boundaries).sum(-1)",
    "aten.max.dim": "amax for the values, argmax for their indices",
    "aten.median.dim": "sort, and an index of the middle",
    "aten.min.dim": "amin for the values, argmin for their indices",
    "aten.nonzero.default": "topk of the mask with a fixed number, or where, which keeps the size",
}
"""By operator. tests/rules/backends/tensorrt/test_advice.py shows that TensorRT takes what it says."""


class _TensorrtPartitioning(Partitioning):
    ids = (BACKEND,)
    annotations = (PROFILES,)
    passes = (own_sizes,)
    on_gpu = True
    leaves_quantized = True
    unrolls = 16
    advice = ADVICE

    def prepare(self, program: Any) -> Any:
        """Rewrite poolings to the forms that have a converter."""
        for module in program.graph_module.modules():
            if isinstance(module, torch.fx.GraphModule):
                in_batches(module)
                round_down(module)
        return program

    def partitioner(self, attributes: Mapping[str, Any], failed_nodes: Mapping[str, str]) -> TensorrtPartitioner:
        """Return the partitioner for the attributes. Raises StepError for an unknown operator."""
        import_torch_tensorrt(attributes["flavour"])
        import torch_tensorrt.executorch.backend  # noqa: F401  (registers TensorRTBackend)

        return TensorrtPartitioner(attributes, failed_nodes)

    def failure(self, program: Any, attributes: Mapping[str, Any]) -> dict[str, str]:
        """Build the engine if failed nodes shall fall back. Return the nodes that prevent it, with the reason: the
        nodes of the operator that cannot be converted, the first node with which the engine cannot be built, or all
        nodes."""
        if attributes["engine"] is None:
            return {}
        error = _error(program, attributes)
        if error is None:
            return {}
        nodes = []
        if isinstance(error, ConversionError):
            nodes = Support(program, compilation_settings(attributes)).lowered_to(error.target)
        if not nodes:
            nodes = nodes_at_fault(program, lambda part: _error(part, attributes) is None) or _nodes(program)
        return dict.fromkeys(nodes, str(error))

    def eager(self, program: Any, attributes: Mapping[str, Any]) -> tuple[Callable[..., Any], float]:
        """Return a partition as torch_tensorrt lowers it, and its tolerance."""
        module = lowered(program, compilation_settings(attributes), attributes["precision"])
        # TensorRT's tensors have no strides; strides of a decomposition may differ from the operator's.
        for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
            node.target = torch.ops.aten.reshape.default
        module.recompile()
        return module, TOLERANCES.get(attributes["precision"], 0.0)

    def at_fault(self, program: Any, works: Callable[[Any], bool]) -> list[str]:
        """Return the first node with which a partition does not work, or the nodes before the first node that works."""
        return nodes_at_fault(program, works)

    def refusal(self, partitioner: TensorrtPartitioner, node: Any) -> str:
        """Return why the partitioner did not take a node."""
        return partitioner.refused.get(node.name, "not offered")


def _error(program: Any, attributes: Mapping[str, Any]) -> StepError | None:
    """Return why a partition's engine cannot be built; None if it can."""
    try:
        build(program, attributes["engine"])
    except StepError as error:
        return error
    return None


def _nodes(program: Any) -> list[str]:
    return [name for name, _ in computing(program.graph_module)]


PARTITIONING = _TensorrtPartitioning()
