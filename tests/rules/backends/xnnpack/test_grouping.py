"""Groups of nodes are merged into the partitions of ExecuTorch's own grouping."""

from __future__ import annotations

import random

import pytest
import torch
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_grouped_partitions_from_list_of_nodes,
)

from modelbuild_rules.backends.xnnpack.steps import grouping
from modelbuild_rules.backends.xnnpack.steps.grouping import merged_quickly


def drawn(seed: int) -> tuple[torch.fx.GraphModule, list[list[torch.fx.Node]]]:
    """Return a random graph with groups of its nodes, of which some have nodes far apart."""
    draw = random.Random(seed)
    graph = torch.fx.Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("w")]
    for _ in range(40):
        near = nodes[-draw.choice((4, 40)) :]
        nodes.append(graph.call_function(torch.add, tuple(draw.choices(near, k=2))))
    graph.output([node for node in nodes if not node.users])
    groups: list[list[torch.fx.Node]] = [[] for _ in range(18)]
    for node in nodes[1:]:
        if draw.random() < 0.8:
            draw.choice(groups).append(node)
    return torch.fx.GraphModule({}, graph), [group for group in groups if group]


def partitions(seed: int) -> list[list[str]]:
    found = generate_grouped_partitions_from_list_of_nodes(*drawn(seed))
    return [sorted(node.name for node in each.nodes) for each in found]


@pytest.mark.parametrize("seed", range(30))
def test_the_partitions_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = partitions(seed)
    asked = []
    ask = grouping._Bits.can_merge
    monkeypatch.setattr(grouping._Bits, "can_merge", lambda *given: asked.append(ask(*given)) or asked[-1])
    with merged_quickly():
        assert partitions(seed) == expected
    assert asked
    assert partitions(seed) == expected


def test_some_groups_are_merged_and_others_not() -> None:
    counts = [(len(drawn(seed)[1]), len(partitions(seed))) for seed in range(30)]
    assert any(1 < found < groups for groups, found in counts)
