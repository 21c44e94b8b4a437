"""TensorRT: partitions become engines, built for the compute capabilities of the device, with or without a GPU here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from modelbuild.step import StepError
from modelbuild_rules.backends.tensorrt.steps.engine.engine import PROFILES, build
from modelbuild_rules.backends.tensorrt.steps.engine.lowering import lowered
from modelbuild_rules.backends.tensorrt.steps.engine.partitioner import BACKEND, TensorrtPartitioner
from modelbuild_rules.backends.tensorrt.steps.engine.pooling import round_down
from modelbuild_rules.backends.tensorrt.steps.engine.settings import compilation_settings
from modelbuild_rules.backends.tensorrt.steps.engine.torch_tensorrt_private import import_torch_tensorrt
from modelbuild_rules.program.steps.lowering.partitioning import Partitioning
from modelbuild_rules.program.steps.lowering.sizes import own_sizes

TOLERANCES = {"fp16": 2e-2, "bf16": 1e-1}
"""What computing in fewer bits may cost, as a part of a result's greatest magnitude."""


class _TensorrtPartitioning(Partitioning):
    ids = (BACKEND,)
    annotations = (PROFILES,)
    passes = (own_sizes,)

    def prepare(self, program: Any) -> None:
        """Write max poolings as the converter wants them."""
        for module in program.graph_module.modules():
            if isinstance(module, torch.fx.GraphModule):
                round_down(module)

    def partitioner(self, attributes: Mapping[str, Any], left_out: Mapping[str, str]) -> TensorrtPartitioner:
        """The partitioner that the attributes describe. Raises StepError for an operator that does not exist."""
        import_torch_tensorrt(attributes["flavour"])
        import torch_tensorrt.executorch.backend  # noqa: F401  (registers TensorRTBackend)

        return TensorrtPartitioner(attributes, left_out)

    def failure(self, program: Any, attributes: Mapping[str, Any]) -> str:
        """Why no engine can be built of a partition, where nodes are to fall back then."""
        if attributes["engine"] is None:
            return ""
        try:
            build(program, attributes["engine"])
        except StepError as error:
            return str(error)
        return ""

    def eager(self, program: Any, attributes: Mapping[str, Any]) -> tuple[Callable[..., Any], float]:
        """What torch_tensorrt's lowering makes of a partition."""
        return lowered(program, compilation_settings(attributes)), TOLERANCES.get(attributes["precision"], 0.0)

    def refusal(self, partitioner: TensorrtPartitioner, node: Any) -> str:
        """Why a node was left out."""
        return partitioner.refused.get(node.name, "not offered")


PARTITIONING = _TensorrtPartitioning()
