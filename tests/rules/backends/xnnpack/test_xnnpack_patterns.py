"""Only patterns that cannot match are excluded; this fails if upstream's patterns change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from executorch.backends.xnnpack.partition.graphs import bilinear_2d, sdpa

from modelbuild_rules.backends.xnnpack.steps.patterns import SDPA, needed_patterns


def operators(pattern: Any) -> set[str]:
    return {node.target.__name__ for node in pattern.graph.nodes if node.op == "call_function"}


def program(*names: str) -> Any:
    nodes = [SimpleNamespace(op="call_function", target=SimpleNamespace(__name__=name)) for name in names]
    return SimpleNamespace(graph=SimpleNamespace(nodes=nodes))


@pytest.mark.slow
def test_upstream_s_patterns_hold_the_operators_that_are_looked_for() -> None:
    attention = [operators(pattern) for pattern in sdpa.get_graphs()]
    assert attention
    assert all(found >= SDPA for found in attention)
    bilinear = [operators(pattern) for pattern in bilinear_2d.get_graphs_dict()]
    assert bilinear
    assert all(found == {"aten.upsample_bilinear2d.vec"} for found in bilinear)


def test_patterns_are_left_out_only_where_they_can_t_match_and_only_for_a_while() -> None:
    before = sdpa.get_graphs, bilinear_2d.get_graphs_dict
    with needed_patterns(program("aten.convolution.default", "aten.bmm.default")):
        assert sdpa.get_graphs() == []
        assert bilinear_2d.get_graphs_dict() == {}
    with needed_patterns(program(*SDPA, "aten.mul.Tensor")):
        assert sdpa.get_graphs is before[0]
    assert (sdpa.get_graphs, bilinear_2d.get_graphs_dict) == before
