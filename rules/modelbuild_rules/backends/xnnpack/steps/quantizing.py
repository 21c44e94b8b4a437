"""Make torchao's quantizers for XNNPACK, as executorch configures them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY
from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

from modelbuild_rules.backend_api.steps.quantizing import Filter, Quantizing

_ARITHMETIC = (torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor)
_CAT = torch.ops.aten.cat.default
_EPSILON = 2**-12  # executorch's smallest scale


class _AfterTraining(XNNPACKQuantizer):
    """XNNPACKQuantizer without the patterns of quantization during training, which take 5 s of CPU to trace. After
    training, batch norms are already folded into convolutions."""

    def transform_for_annotation(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Make tensors of the numbers that allowed nodes add or multiply by. Upstream makes float32 tensors of all
        numbers, even of numbers that are added to integers."""
        assert self.filter_fn is not None
        for node in [each for each in model.graph.nodes if each.target in _ARITHMETIC and self.filter_fn(each)]:
            node.args = tuple(
                each if isinstance(each, torch.fx.Node) else _as_tensor(model, node, each) for each in node.args
            )
        model.recompile()
        return model

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Annotate the allowed nodes. Upstream also annotates every other concatenation, even of integers."""
        filter_fn = self.filter_fn
        assert filter_fn is not None
        others = [node for node in model.graph.nodes if node.target == _CAT and not filter_fn(node)]
        own = [node for node in others if Q_ANNOTATION_KEY not in node.meta]
        for node in own:
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(_annotated=True)
        annotated = super().annotate(model)
        for node in own:
            del node.meta[Q_ANNOTATION_KEY]
        return annotated

    SUPPORTED_PATTERNS = [pattern for pattern in XNNPACKQuantizer.SUPPORTED_PATTERNS if not pattern.is_qat]  # noqa: RUF012


def _as_tensor(model: torch.fx.GraphModule, user: torch.fx.Node, number: float) -> torch.fx.Node:
    """Add a buffer with a number to a module; return its node, placed before its user."""
    name = next(name for count in range(len(model.graph.nodes)) if not hasattr(model, name := f"number_{count}"))
    model.register_buffer(name, torch.tensor(float(number)))
    with model.graph.inserting_before(user):
        node = model.graph.get_attr(name)
    node.meta["val"] = user.meta["val"].new_empty(())
    return node


class _XnnpackQuantizing(Quantizing):
    operators = (
        "aten.add.Tensor",
        "aten.cat.default",
        "aten.conv1d.default",
        "aten.conv2d.default",
        "aten.conv_transpose2d.input",
        "aten.linear.default",
        "aten.mul.Tensor",
    )

    def quantizer(self, attributes: Mapping[str, Any], allowed: Filter) -> XNNPACKQuantizer | None:
        if attributes["weights"] == "int4":
            return None
        # Observers of activations do not depend on observers of weights.
        config = get_symmetric_quantization_config(
            is_per_channel=attributes.get("per_channel", True), is_dynamic=attributes["mode"] == "dynamic"
        )
        if attributes["mode"] == "static" and attributes["observer"] == "min_max":
            activation = replace(
                config.input_activation, observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=_EPSILON)
            )
            config = replace(config, input_activation=activation, output_activation=activation)
        return _AfterTraining().set_global(config).set_filter_function(allowed)

    def linear(self, attributes: Mapping[str, Any]) -> Int8DynamicActivationIntxWeightConfig | None:
        if attributes["weights"] != "int4":
            return None
        group = attributes.get("group_size")
        granularity = PerAxis(0) if group is None else PerGroup(group)
        return Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=granularity)

    def linear_problem(self, attributes: Mapping[str, Any], weight: torch.Tensor) -> str:
        group = attributes.get("group_size")
        if group is not None and weight.shape[1] % group:
            return f"its {weight.shape[1]} input channels are no multiple of group_size {group}"
        return ""


QUANTIZING = _XnnpackQuantizing()
