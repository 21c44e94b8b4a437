"""Partitioning for XNNPACK: floating-point and quantized operators on the CPU.

Private names of executorch are used; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS, xnnpack_config
from executorch.backends.xnnpack.partition.config.gemm_configs import AddmmConfig, GEMMConfig
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.utils.quant_utils import IS_IMPLICIT_Q_DQ_TAG, is_dequant, is_quant
from executorch.backends.xnnpack.utils.utils import normalize_pool2d_args
from executorch.backends.xnnpack.utils.xnnpack_constants import XNN_MAX_TENSOR_DIMS
from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
from executorch.exir.backend.canonical_partitioners.config_partitioner import format_target_name
from executorch.exir.backend.utils import WhyNoPartition
from executorch.exir.dialects._ops import ops
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from modelbuild.errors import did_you_mean
from modelbuild_rules.backend_api.steps.partitioning import AttributeProblem, Partitioning
from modelbuild_rules.backend_api.steps.shapes import has_other_order, may_be_zero
from modelbuild_rules.backends.xnnpack.steps.acyclic import without_cycles
from modelbuild_rules.backends.xnnpack.steps.counted_rows import with_additional_row
from modelbuild_rules.backends.xnnpack.steps.grouping import merged_quickly
from modelbuild_rules.backends.xnnpack.steps.large_windows import parts_of
from modelbuild_rules.backends.xnnpack.steps.nonfinite import WINDOWS
from modelbuild_rules.backends.xnnpack.steps.substitutes import with_substitutes

edge = ops.edge.aten

_PRECISIONS = {
    "fp32": ConfigPrecisionType.FP32,
    "static_quant": ConfigPrecisionType.STATIC_QUANT,
    "dynamic_quant": ConfigPrecisionType.DYNAMIC_QUANT,
}


def _is_image(node: Any) -> str:
    return "" if node.args[0].meta["val"].dim() == 4 else "XNNPACK takes it only for images (four dimensions)"


def _is_only_user(node: Any) -> str:
    # XNNPACK's code removes copies. A partition that returned a tensor and its copy would return one tensor twice.
    if has_other_order(node.args[0].meta["val"]):
        return "XNNPACK's copy leaves the order of dimensions as it is"
    return "" if len(node.args[0].users) == 1 else "XNNPACK takes a copy only of a tensor without other uses"


def _is_finite(node: Any) -> str:
    finite = len(node.args) < 3 or math.isfinite(node.args[2])
    return "" if finite else "XNNPACK's file format has only finite numbers"


def _has_bounds(node: Any) -> str:
    missing = any(isinstance(bound, float) and math.isnan(bound) for bound in node.args[1:])
    return "XNNPACK ignores a bound that is NaN" if missing else ""


def _has_few_dimensions(node: Any) -> str:
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    many = any(isinstance(value, torch.Tensor) and value.dim() > XNN_MAX_TENSOR_DIMS for value in values)
    return f"XNNPACK's tensors have at most {XNN_MAX_TENSOR_DIMS} dimensions" if many else ""


def _has_elements(node: Any) -> str:
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    empty = any(isinstance(value, torch.Tensor) and any(map(may_be_zero, value.shape)) for value in values)
    return "XNNPACK computes wrong shapes from sizes that are 0; with min = 1 it takes the operator" if empty else ""


def _has_dimensions(node: Any) -> str:
    return "" if node.meta["val"].dim() else "XNNPACK takes only tensors with dimensions"


def _is_exact_gelu(node: Any) -> str:
    return "" if node.kwargs.get("approximate", "none") == "none" else "XNNPACK has no approximation of gelu"


def _begins_inside(node: Any) -> str:
    begin = node.args[2] if len(node.args) > 2 else None
    size = node.args[0].meta["val"].shape[node.args[1] if len(node.args) > 1 else 0]
    outside = isinstance(size, int) and isinstance(begin, int) and begin < -size
    return "XNNPACK takes only slices that begin inside of the tensor" if outside else ""


def _is_layer(node: Any) -> str:
    if any(value != 1 for value in node.kwargs.values()):
        return "XNNPACK has no alpha and beta"
    return _has_bias_of_outputs(node.args[0].meta["val"].shape, node.meta["val"])


def _is_linear(node: Any) -> str:
    if node.args[1].meta["val"].dim() != 2:
        return "XNNPACK takes weights of two dimensions only"
    bias = node.args[2] if len(node.args) > 2 else None
    return "" if bias is None else _has_bias_of_outputs(bias.meta["val"].shape, node.meta["val"])


def _has_bias_of_outputs(bias: Sequence[Any], result: torch.Tensor) -> str:
    wanted = result.shape[-1]
    return "" if list(bias) in ([wanted], [1, wanted]) else "XNNPACK takes only a bias with a number for each output"


def _is_convolution(node: Any) -> str:
    _, weight, _, stride, _, _, transposed, output_padding, _ = node.args
    if transposed:
        fits = all(more < step for more, step in zip(output_padding, stride, strict=False))
        return "" if fits else "XNNPACK takes only an output_padding below the stride"
    taps = math.prod(weight.meta["val"].shape[2:])
    if is_dequant(weight) or not _is_depthwise(node) or taps in WINDOWS or taps > max(WINDOWS) or parts_of(node):
        return ""
    return f"XNNPACK's depthwise convolutions of {taps} taps spread NaN and infinities"


def _is_depthwise(node: Any) -> bool:
    """Return whether a convolution, which is not transposed, has one input and one output in each group."""
    return bool(list(node.args[1].meta["val"].shape[:2]) == [node.args[8], 1])


def _is_maximum(node: Any) -> str:
    if is_dequant(node.args[0]):
        return _is_image(node)
    window = math.prod(normalize_pool2d_args(node, has_dilation=True)[0])
    return _is_image(node) or ("" if window in WINDOWS else _IGNORES_NAN)


def _is_mean(node: Any) -> str:
    x = node.args[0]
    kernel, _, padding, _ = normalize_pool2d_args(node, has_dilation=False)
    if why := _is_image(node):
        return why
    if any(padding):
        return "XNNPACK's average of a window that reaches into the padding loses NaN"
    whole = kernel == list(x.meta["val"].shape[2:])
    return "" if is_dequant(x) or whole or math.prod(kernel) in WINDOWS else _LOSES_NAN


def _is_not_half(node: Any) -> str:
    if node.meta["val"].dtype != torch.float16:
        return ""
    return "XNNPACK's kernel for float16 loses NaN on x86, and lossy has no 'float16'"


def _never(why: str) -> Callable[[Any], str]:
    return lambda node: why


_IGNORES_NAN = "XNNPACK's maxima and minima ignore NaN"
_LOSES_NAN = "XNNPACK's kernel loses NaN"

_CONSTRAINTS: Mapping[str, Callable[[Any], str]] = {
    "_clone_dim_order.default": _is_only_user,
    "_softmax.default": _has_dimensions,
    "addmm.default": _is_layer,
    "avg_pool2d.default": _is_mean,
    "clamp.default": _has_bounds,
    "clone.default": _is_only_user,
    "constant_pad_nd.default": _is_finite,
    "convolution.default": _is_convolution,
    "cos.default": _never("XNNPACK's cosine of a large number is wrong"),
    "exp.default": _never(_LOSES_NAN),
    "gelu.default": _is_exact_gelu,
    "linear.default": _is_linear,
    "log.default": _never(_LOSES_NAN),
    "max.dim": _never(_IGNORES_NAN),
    "max_pool2d.default": _is_maximum,
    "maximum.default": _never(_IGNORES_NAN),
    "minimum.default": _never(_IGNORES_NAN),
    "permute_copy.default": _has_dimensions,
    "prelu.default": _is_image,
    "rsqrt.default": _never("XNNPACK's result for 0 is NaN"),
    "sin.default": _never("XNNPACK's sine of a large number is wrong"),
    "slice_copy.Tensor": _begins_inside,
    "sqrt.default": _never("XNNPACK's result for infinity is NaN"),
    "upsample_bilinear2d.vec": _never("XNNPACK's kernel makes NaN of infinities"),
}
"""By operator, a function that returns why XNNPACK cannot compile a node or computes other values than the node, or ''
if upstream's configurations take it. nonfinite.py and normalization.py replace other operators while compiling."""

_WITH_ELEMENTS = frozenset({"avg_pool2d.default", "bmm.default", "convolution.default", "max_pool2d.default"})
"""Operators whose tensors may not be empty."""

_LOSSY: Mapping[str, Mapping[str, Callable[[Any], str]]] = {
    "float16": dict.fromkeys(
        (
            "addmm.default",
            "avg_pool2d.default",
            "bmm.default",
            "clamp.default",
            "convolution.default",
            "hardtanh.default",
            "linear.default",
            "max_pool2d.default",
            "mm.default",
            "relu.default",
        ),
        _is_not_half,
    ),
}
"""By value of the attribute `lossy`, the constraints of a stack without this value. Activations that a convolution or
linear layer computes are not checked."""


def _may_be_empty(value: torch.Tensor) -> bool:
    """Return whether a tensor whose sizes depend on values may have no elements; upstream refuses all of them."""
    return bool(has_free_unbacked_symbols(value)) and any(map(may_be_zero, value.shape))


def _with_transposed_weight(
    config: AddmmConfig, get_deps: Callable[..., Any], node: Any, ep: Any
) -> tuple[bool, list[Any]]:
    """Return whether XNNPACK takes a product, and all its nodes. Upstream refuses a stored weight that is transposed:
    what remains of a linear layer that executorch decomposed for another backend."""
    given = node.args
    weight = given[config.weight_idx]
    transposed = weight.target == edge.permute_copy.default and [axis % 2 for axis in weight.args[1]] == [1, 0]
    if not transposed or weight.args[0].op != "placeholder" or len(weight.users) > 1:
        return get_deps(node, ep)  # XNNPACK's code drops the transposition, also for its other users
    node.update_arg(config.weight_idx, weight.args[0])
    try:
        valid, nodes = get_deps(node, ep)
    finally:
        node.args = given
    return valid, [*nodes, weight] if valid else []


class _Partitioner(XnnpackPartitioner):
    """XnnpackPartitioner that respects exclude_ops, the enabled precisions for matrix products, and more constraints,
    and whose partitions do not depend on each other.

    Upstream's partitioner takes a linear layer or convolution regardless of the enabled precisions, and fuses an
    activation into it even if the activation has no configuration.
    """

    def __init__(self, excluded: frozenset[str], lossy: Collection[str], **options: Any) -> None:
        configs = [config for config in ALL_PARTITIONER_CONFIGS if config.target_name not in excluded]
        super().__init__(configs=configs, **options)
        self.excluded = excluded
        self.refused: dict[str, str] = {}
        for config in self.target_partitioner_configs.values():
            if isinstance(config, GEMMConfig):
                config.check_constraints = partial(self._check_precision, config, config.check_constraints)
            if isinstance(config, AddmmConfig):  # also of mm
                config.get_deps = partial(_with_transposed_weight, config, config.get_deps)
            for table in (_CONSTRAINTS, *(table for name, table in _LOSSY.items() if name not in lossy)):
                if config.target_name in table:
                    constraint = table[config.target_name]
                    config.check_constraints = partial(self._check, constraint, config.check_constraints)
            if config.target_name in _WITH_ELEMENTS:
                config.check_constraints = partial(self._check, _has_elements, config.check_constraints)
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
        with merged_quickly(), patch.object(xnnpack_config, "has_free_unbacked_symbols", _may_be_empty):
            found = super().generate_partitions(ep)
        return without_cycles(ep.graph, found, self.get_matched_nodes_from_configs(ep))

    def excludes(self, node: Any) -> bool:
        return node.op == "call_function" and format_target_name(node.target.__name__) in self.excluded


class _XnnpackPartitioning(Partitioning):
    ids = (XnnpackBackend.__name__,)
    annotations = (IS_IMPLICIT_Q_DQ_TAG,)
    passes = (with_substitutes, with_additional_row)

    def prepare(self, program: Any) -> Any:
        """Make default strides and paddings of poolings explicit, as executorch's code for XNNPACK expects."""
        for module in program.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
                if node.target in (torch.ops.aten.max_pool2d.default, torch.ops.aten.avg_pool2d.default):
                    input, kernel, *rest = node.args
                    kernel = list(kernel) * (2 // len(kernel))
                    stride = list(rest[0] if rest else ()) or kernel
                    node.args = (input, kernel, stride, *(rest[1:] or ([0, 0],)))
        return program

    def partitioner(self, attributes: Mapping[str, Any], failed_nodes: Mapping[str, str]) -> XnnpackPartitioner:
        """Return the partitioner for the attributes. Raises StepError for an operator unknown to XNNPACK."""
        known = {config.target_name for config in ALL_PARTITIONER_CONFIGS}
        excluded = frozenset(format_target_name(op) for op in attributes["exclude_ops"])
        for op in attributes["exclude_ops"]:
            if format_target_name(op) not in known:
                near = did_you_mean(op, [f"{op.partition('.')[0]}.{name}" for name in known])
                raise AttributeProblem(
                    "exclude_ops", f"XNNPACK takes no operator '{op}'{near or '; expected an operator that it takes'}"
                )
        return _Partitioner(
            excluded,
            attributes["lossy"],
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
