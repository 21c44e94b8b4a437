"""Make torchao's quantizer for TensorRT, whose Q and DQ layers have no zero points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from modelbuild_rules.backend_api.steps.quantizing import Filter, Quantizing
from modelbuild_rules.backends.tensorrt.steps.float8 import Float8Observer, Float8PerChannelObserver

_LINEAR = torch.ops.aten.linear.default
_OPERATORS = (torch.ops.aten.conv2d.default, _LINEAR)
_OBSERVERS = {"histogram": HistogramObserver, "min_max": MinMaxObserver}
_EPSILON = 2**-12

_INT8_WEIGHT = QuantizationSpec(
    dtype=torch.int8,
    quant_min=-127,
    quant_max=127,
    qscheme=torch.per_channel_symmetric,
    ch_axis=0,
    observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=_EPSILON),
)
_FLOAT8_WEIGHT = QuantizationSpec(torch.float8_e4m3fn, Float8PerChannelObserver, ch_axis=0)
_FLOAT8_ACTIVATION = QuantizationSpec(torch.float8_e4m3fn, Float8Observer)


class _InputsAndWeights(Quantizer):
    """Quantizes the inputs and weights of the allowed operators."""

    def __init__(
        self, operators: Sequence[Any], activation: QuantizationSpec, weight: QuantizationSpec, allowed: Filter
    ) -> None:
        super().__init__()
        self._operators = operators
        self._activation = activation
        self._weight = weight
        self._allowed = allowed

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        for node in model.graph.nodes:
            if node.target not in self._operators or Q_ANNOTATION_KEY in node.meta or not self._allowed(node):
                continue
            given, weight = node.args[:2]
            if weight.op == "get_attr":
                specs = {given: self._activation, weight: self._weight}
                node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(specs, _annotated=True)
        return model

    def validate(self, model: torch.fx.GraphModule) -> None:
        """Accept all annotations."""


class _TensorrtQuantizing(Quantizing):
    operators = tuple(map(str, _OPERATORS))

    def quantizer(self, attributes: Mapping[str, Any], allowed: Filter) -> Quantizer:
        if attributes["dtype"] == "float8_e4m3fn":
            return _InputsAndWeights((_LINEAR,), _FLOAT8_ACTIVATION, _FLOAT8_WEIGHT, allowed)
        activation = QuantizationSpec(
            dtype=torch.int8,
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_tensor_symmetric,
            observer_or_fake_quant_ctr=_OBSERVERS[attributes["observer"]].with_args(eps=_EPSILON),
        )
        return _InputsAndWeights(_OPERATORS, activation, _INT8_WEIGHT, allowed)


QUANTIZING = _TensorrtQuantizing()
