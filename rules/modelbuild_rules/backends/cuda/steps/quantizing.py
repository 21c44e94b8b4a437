"""Quantize the weights of linear layers for CUDA: torchao chooses the integers and scales, and plain operators, which
Inductor compiles, expand them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torchao.quantization import Int8WeightOnlyConfig, IntxWeightOnlyConfig
from torchao.quantization.granularity import PerGroup

from modelbuild_rules.backend_api.steps.quantizing import Quantizing

_GROUP = 32


class _Packed(nn.Module):
    """A linear layer whose weights are pairs of 4 bits: in each group of input channels, the first half is in the low
    bits and the second half in the high bits. Each half has a separate product."""

    def __init__(self, values: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        rows, groups = scale.shape
        self.group = values.shape[1] // groups
        low, high = (values + 8).to(torch.uint8).view(rows, groups, 2, self.group // 2).unbind(2)
        self.register_buffer("weight", (low | (high << 4)).flatten(1))
        self.register_buffer("scale", scale)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        weight, scale = self.get_buffer("weight"), self.get_buffer("scale")
        rows, groups = scale.shape
        halves = x.unflatten(-1, (groups, 2, self.group // 2))
        total = None
        for number, bits in enumerate((weight & 15, weight >> 4)):
            values = (bits.to(x.dtype) - 8).view(rows, groups, -1) * scale.unsqueeze(-1)
            product = torch.nn.functional.linear(halves.select(-2, number).flatten(-2), values.flatten(1))
            total = product if total is None else total + product
        assert total is not None
        return total if self.bias is None else total + self.bias


class _CudaQuantizing(Quantizing):
    operators = ("aten.linear.default",)
    types = ("float32", "float16", "bfloat16")

    def linear(self, attributes: Mapping[str, Any]) -> Any:
        if attributes["weights"] == "int8":
            return Int8WeightOnlyConfig()
        group = attributes["group_size"] or _GROUP
        return IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(group))

    def packed(self, attributes: Mapping[str, Any], layer: nn.Linear) -> nn.Module:
        if attributes["weights"] == "int8":
            return layer
        stored: Any = layer.weight
        return _Packed(stored.qdata, stored.scale, None if layer.bias is None else layer.bias.detach())

    def linear_problem(self, attributes: Mapping[str, Any], weight: Tensor) -> str:
        group = attributes["group_size"] or _GROUP
        if attributes["weights"] == "int4" and weight.shape[1] % group:
            return f"its {weight.shape[1]} input channels are no multiple of group_size {group}"
        return ""


QUANTIZING = _CudaQuantizing()
