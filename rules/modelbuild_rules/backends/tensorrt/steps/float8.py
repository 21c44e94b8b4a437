"""Observers for 8-bit floating-point numbers. PT2E has none: its operators round to integers first.

A scale maps the greatest magnitude to the greatest number of float8_e4m3fn, 448. torchao's operators quantize: they
divide, clamp and cast.

Private names used, checked on torchao 0.18.0: the operators torchao::quantize_affine_float8_non_decomposed and
dequantize_affine_float8_non_decomposed. PT2E calls the method `convert` of observers that have it.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torchao.quantization.pt2e import ObserverBase
from torchao.quantization.pt2e.utils import create_getattr_from_value

_TYPE = torch.float8_e4m3fn
_QUANTIZE = torch.ops.torchao.quantize_affine_float8_non_decomposed.default
_DEQUANTIZE = torch.ops.torchao.dequantize_affine_float8_non_decomposed.default


class Float8Observer(ObserverBase):
    """Observes the greatest magnitude of a tensor. `dtype` and others are the fields of PT2E's specification."""

    greatest: torch.Tensor

    def __init__(self, dtype: torch.dtype = _TYPE, **_: Any) -> None:
        super().__init__(dtype)
        self.register_buffer("greatest", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Observe a tensor, and return it."""
        if x.numel():
            self.greatest = torch.maximum(self.greatest, self._magnitudes(x.detach()))
        return x

    def _magnitudes(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs().amax().reshape(1)

    def calculate_qparams(self) -> torch.Tensor:
        """Return the scale."""
        scale = self.greatest / torch.finfo(_TYPE).max
        return torch.where(scale > 0, scale, torch.ones_like(scale))  # zeros, or never observed

    def convert(self, model: torch.fx.GraphModule, node: torch.fx.Node) -> None:
        """Replace the observer's node: store a parameter as 8-bit numbers, and quantize other tensors in the graph."""
        given = node.args[0]
        assert isinstance(given, torch.fx.Node)
        scale = self.calculate_qparams()
        graph = model.graph
        with graph.inserting_before(node):
            stored = create_getattr_from_value(model, graph, "_scale", scale, scale.device)
            if given.op == "get_attr":
                weight = operator.attrgetter(str(given.target))(model)
                value = _QUANTIZE(weight.detach(), scale, _TYPE)
                quantized = create_getattr_from_value(model, graph, "_quantized", value, value.device)
            else:
                quantized = graph.call_function(_QUANTIZE, (given, stored, _TYPE))
            dequantized = graph.call_function(_DEQUANTIZE, (quantized, stored))
        node.replace_all_uses_with(dequantized)
        graph.erase_node(node)


class Float8PerChannelObserver(Float8Observer):
    """Observes the greatest magnitude of each row of a weight."""

    def _magnitudes(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs().amax(tuple(range(1, x.dim())), keepdim=True)
