"""Nodes whose results a search compares: those that lead to a wrong output, except those that a backend keeps to
itself."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization.pt2e import quantize_pt2e  # noqa: F401  # registers quantized_decomposed

from modelbuild_rules.testing.steps.bisect.origins import has_computed_range, leading_to


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


class Branches(nn.Module):
    """Two outputs of a common node; `changes` also adds to a buffer, or to a tensor in place."""

    def __init__(self, changes: str = "") -> None:
        super().__init__()
        self.changes = changes
        self.register_buffer("sum", torch.zeros(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        both = x.exp()
        if self.changes == "buffer":
            self.get_buffer("sum").add_(both)
        return both.sin(), both.cos().add_(1) if self.changes == "place" else both.cos()


@pytest.mark.parametrize(
    ("outputs", "left_out"),
    [([False, True], {"sin"}), ([True, False], {"cos"}), ([True, True], set()), ([False, False], set()), ([], set())],
)
def test_nodes_of_right_outputs_alone_lead_to_no_wrong_one(outputs: list[bool], left_out: set[str]) -> None:
    exported = torch.export.export(Branches().eval(), (torch.ones(3),), strict=False)
    every = {node.name for node in exported.graph.nodes if node.op == "call_function"}
    assert every == {"exp", "sin", "cos"}
    assert every - leading_to(exported, outputs) == left_out


@pytest.mark.parametrize("changes", ["buffer", "place"])
def test_all_nodes_lead_to_a_wrong_output_if_one_changes_a_tensor(changes: str) -> None:
    exported = torch.export.export(Branches(changes).eval(), (torch.ones(3),), strict=False)
    assert leading_to(exported, [True, False]) >= {node.name for node in exported.graph.nodes}
