"""Nodes whose results a search compares: not those that a backend keeps to itself."""

from __future__ import annotations

import operator

import torch
from torchao.quantization.pt2e import quantize_pt2e  # noqa: F401  # registers quantized_decomposed

from modelbuild_rules.testing.steps.bisect.origins import has_computed_range


def test_ranges_that_a_partition_computes_are_not_among_its_results() -> None:
    ops, graph = torch.ops.quantized_decomposed, torch.fx.Graph()
    x, weight = graph.placeholder("x"), graph.placeholder("weight")
    chosen = graph.call_function(ops.choose_qparams.tensor, (x, -128, 127, 1e-5, torch.int8))
    scale, zero = (graph.call_function(operator.getitem, (chosen, place)) for place in range(2))
    given = (scale, zero, -128, 127, torch.int8)
    quantized = graph.call_function(ops.quantize_per_tensor.tensor, (x, *given))
    back = graph.call_function(ops.dequantize_per_tensor.tensor, (quantized, *given))
    linear = graph.call_function(torch.ops.aten.linear.default, (back, weight))
    relu = graph.call_function(torch.ops.aten.relu.default, (linear,))
    found = {node: has_computed_range(node) for node in (chosen, scale, zero, quantized, back, linear, relu)}
    assert [node for node, kept in found.items() if not kept] == [linear, relu]
