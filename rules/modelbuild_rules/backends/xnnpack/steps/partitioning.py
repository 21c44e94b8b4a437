"""Partitioning for XNNPACK: floating-point and quantized operators on the CPU.

Private names of executorch are used; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS
from executorch.backends.xnnpack.partition.config.gemm_configs import GEMMConfig
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.utils.quant_utils import IS_IMPLICIT_Q_DQ_TAG, is_dequant, is_quant
from executorch.backends.xnnpack.utils.xnnpack_constants import XNN_MAX_TENSOR_DIMS
from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
from executorch.exir.backend.canonical_partitioners.config_partitioner import format_target_name
from executorch.exir.backend.utils import WhyNoPartition

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError
from modelbuild_rules.backends.xnnpack.steps.acyclic import without_cycles
from modelbuild_rules.backends.xnnpack.steps.grouping import merged_quickly
from modelbuild_rules.backends.xnnpack.steps.normalization import with_weights
from modelbuild_rules.program.steps.lowering.partitioning import Partitioning

_PRECISIONS = {
    "fp32": ConfigPrecisionType.FP32,
    "static_quant": ConfigPrecisionType.STATIC_QUANT,
    "dynamic_quant": ConfigPrecisionType.DYNAMIC_QUANT,
}


def _is_image(node: Any) -> str:
    return "" if node.args[0].meta["val"].dim() == 4 else "XNNPACK takes it only for images (four dimensions)"


def _is_maximum_of_lines(node: Any) -> str:
    kept = len(node.args) > 2 and node.args[2]
    return "" if kept and node.args[1] in (2, 3) else "XNNPACK takes it only with keepdim, along height or width"


def _is_only_user(node: Any) -> str:
    # A partition that returned the tensor and its copy, which XNNPACK's code removes, would return one tensor twice.
    return "" if len(node.args[0].users) == 1 else "XNNPACK takes a copy only of a tensor without other uses"


def _is_finite(node: Any) -> str:
    finite = len(node.args) < 3 or math.isfinite(node.args[2])
    return "" if finite else "XNNPACK's file format has only finite numbers"


def _has_few_dimensions(node: Any) -> str:
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    many = any(isinstance(value, torch.Tensor) and value.dim() > XNN_MAX_TENSOR_DIMS for value in values)
    return f"XNNPACK's tensors have at most {XNN_MAX_TENSOR_DIMS} dimensions" if many else ""


_CONSTRAINTS = {
    "_clone_dim_order.default": _is_only_user,
    "avg_pool2d.default": _is_image,
    "clone.default": _is_only_user,
    "constant_pad_nd.default": _is_finite,
    "max.dim": _is_maximum_of_lines,
    "max_pool2d.default": _is_image,
    "prelu.default": _is_image,
}
"""By operator, a function that returns why XNNPACK can't compile a node, or '': upstream's configurations take it."""


class _Partitioner(XnnpackPartitioner):
    """XnnpackPartitioner that respects exclude_ops, the enabled precisions for matrix products, and more constraints,
    and whose partitions do not depend on each other.

    Upstream's takes a linear layer or convolution regardless of the enabled precisions, and fuses an activation into it
    even if the activation has no configuration.
    """

    def __init__(self, excluded: frozenset[str], **options: Any) -> None:
        configs = [config for config in ALL_PARTITIONER_CONFIGS if config.target_name not in excluded]
        super().__init__(configs=configs, **options)
        self.excluded = excluded
        self.refused: dict[str, str] = {}
        for config in self.target_partitioner_configs.values():
            if isinstance(config, GEMMConfig):
                config.check_constraints = partial(self._check_precision, config, config.check_constraints)
            elif config.target_name in _CONSTRAINTS:
                constraint = _CONSTRAINTS[config.target_name]
                config.check_constraints = partial(self._check, constraint, config.check_constraints)
            config.check_constraints = partial(self._check, _has_few_dimensions, config.check_constraints)

    def _check(self, constraint: Callable[[Any], str], check: Callable[[Any, Any], bool], node: Any, ep: Any) -> bool:
        why = constraint(node)
        if why:
            self.refused[node.name] = why
        return not why and check(node, ep)

    def _check_precision(self, config: Any, check: Callable[[Any, Any], bool], node: Any, ep: Any) -> bool:
        enabled = config.enabled_precision_types
        found = config._detect_precision(node)
        # If only fp32 is enabled, it includes quantized products, computed on dequantized values.
        if found in enabled or enabled == [ConfigPrecisionType.FP32]:
            return check(node, ep)
        self.refused[node.name] = f"{found.name.lower()} is not among the precisions"
        return False

    def get_matched_nodes_from_configs(self, ep: Any) -> list[list[Any]]:
        groups = []
        for group in super().get_matched_nodes_from_configs(ep):
            allowed = [node for node in group if not self.excludes(node)]
            # XNNPACK takes a quantized group as a whole or not at all.
            if len(allowed) < len(group) and any(is_quant(node) or is_dequant(node) for node in group):
                self.refused.update((node.name, "quantized with an operator in exclude_ops") for node in allowed)
            elif allowed:
                groups.append(allowed)
        return groups

    def generate_partitions(self, ep: Any) -> list[Any]:
        with merged_quickly():
            found = super().generate_partitions(ep)
        return without_cycles(ep.graph, found, self.get_matched_nodes_from_configs(ep))

    def excludes(self, node: Any) -> bool:
        return node.op == "call_function" and format_target_name(node.target.__name__) in self.excluded


class _XnnpackPartitioning(Partitioning):
    ids = (XnnpackBackend.__name__,)
    annotations = (IS_IMPLICIT_Q_DQ_TAG,)

    def prepare(self, program: Any) -> Any:
        """Make default strides and paddings of poolings, dimensions of maxima, and weights of batch normalizations
        explicit, as executorch's code for XNNPACK expects."""
        with_weights(program)
        for module in program.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
                if node.target in (torch.ops.aten.max_pool2d.default, torch.ops.aten.avg_pool2d.default):
                    input, kernel, *rest = node.args
                    kernel = list(kernel) * (2 // len(kernel))
                    stride = list(rest[0] if rest else ()) or kernel
                    node.args = (input, kernel, stride, *(rest[1:] or ([0, 0],)))
                elif node.target is torch.ops.aten.max.dim and node.args[1] < 0:
                    node.update_arg(1, node.args[1] + node.args[0].meta["val"].dim())
        return program

    def partitioner(self, attributes: Mapping[str, Any], failed_nodes: Mapping[str, str]) -> XnnpackPartitioner:
        """Return the partitioner for the attributes. Raises StepError for an operator unknown to XNNPACK."""
        known = {config.target_name for config in ALL_PARTITIONER_CONFIGS}
        excluded = frozenset(format_target_name(op) for op in attributes["exclude_ops"])
        for op in attributes["exclude_ops"]:
            if format_target_name(op) not in known:
                near = did_you_mean(op, [f"{op.partition('.')[0]}.{name}" for name in known])
                raise StepError(
                    f"exclude_ops: XNNPACK takes no operator '{op}'{near or '; expected one that it takes'}"
                )
        return _Partitioner(
            excluded,
            config_precisions=[_PRECISIONS[name] for name in attributes["precisions"]],
            per_op_mode=attributes["per_op_mode"],
            force_non_static_weights_for_f32_linear=attributes["force_non_static_weights_for_f32_linear"],
        )

    @contextmanager
    def refusals(self) -> Iterator[dict[str, str]]:
        """Collect the first reason of a partitioner's checks, by node name."""
        reasons: dict[str, str] = {}

        def record(self: WhyNoPartition, node: Any, reason: str) -> None:
            reasons.setdefault(node.name, reason)

        with patch.object(WhyNoPartition, "__call__", record):
            yield reasons

    def refusal(self, partitioner: _Partitioner, node: Any) -> str:
        """Return why the partitioner did not take a node for which its checks gave no reason."""
        if partitioner.excludes(node):
            return "listed in exclude_ops"
        if node.name in partitioner.refused:
            return partitioner.refused[node.name]
        config = partitioner.target_partitioner_configs.get(format_target_name(node.target.__name__))
        if config is None:
            return "no such XNNPACK operator"
        return f"constraints of {type(config).__name__} not met"


PARTITIONING = _XnnpackPartitioning()
