"""Make torchao's quantizers for XNNPACK, as executorch configures them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

from modelbuild_rules.quantization.steps.quantizing import Filter, Quantizing

_EPSILON = 2**-12  # executorch's smallest scale


class _AfterTraining(XNNPACKQuantizer):
    """XNNPACKQuantizer without the patterns of quantization during training, which take 5 s of CPU to trace. After
    training, batch norms are folded into convolutions before."""

    SUPPORTED_PATTERNS = [pattern for pattern in XNNPACKQuantizer.SUPPORTED_PATTERNS if not pattern.is_qat]  # noqa: RUF012


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
        # Observers of activations do not depend on those of weights.
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
