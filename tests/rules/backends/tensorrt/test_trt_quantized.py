"""Quantized operators in a stack of TensorRT, then XNNPACK: each goes with its quantize and dequantize nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch import Tensor, nn

from modelbuild_rules.program.steps.lowering.quantized import quantized

OPS = torch.ops.quantized_decomposed


def again(x: Tensor) -> Tensor:
    """Quantize and dequantize."""
    return OPS.dequantize_per_tensor(
        OPS.quantize_per_tensor(x, 0.1, 0, -128, 127, torch.int8), 0.1, 0, -128, 127, torch.int8
    )


class Net(nn.Module):
    """A layer in floating point, one quantized with its activation, and another in floating point."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(4, 4)
        self.register_buffer("weight", torch.randint(-127, 127, (4, 8), dtype=torch.int8))
        self.register_buffer("scales", torch.full((4,), 0.01))
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        weight = OPS.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        x = again(torch.sigmoid(self.first(x)))
        return torch.exp(self.last(again(torch.relu(nn.functional.linear(x, weight)))))


def test_quantized_operators_are_left_whole(partition: Callable[..., Any], tmp_path: Path) -> None:
    made = partition(Net(), (torch.rand(2, 8),), tmp_path / "made", xnnpack=True)
    backends = {(node["op"], node["backend"]) for node in made.nodes}
    assert {backend for op, backend in backends if op == "aten.addmm.default"} == {"tensorrt"}
    assert {backend for op, backend in backends if op in ("aten.linear.default", "aten.relu.default")} == {"xnnpack"}
    assert {backend for op, backend in backends if "quantize" in op} == {"xnnpack"}
    assert made.why("aten.linear.default") == "it computes with quantized values"


def test_values_that_are_only_passed_on_stay_the_others(tmp_path: Path) -> None:
    class Tail(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(again(torch.relu(again(torch.cos(x)))))

    graph = torch.export.export(Tail(), (torch.rand(2),)).graph
    assert quantized(graph) == {"relu"}
