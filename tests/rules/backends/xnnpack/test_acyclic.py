"""Partitions that depend on each other are divided, and no others."""

from __future__ import annotations

import random
from graphlib import TopologicalSorter
from typing import Any

import pytest
import torch
from torch.fx.passes.infra.partitioner import Partition

from modelbuild_rules.backends.xnnpack.steps.acyclic import without_cycles


def graph_of(edges: dict[str, str]) -> tuple[torch.fx.Graph, dict[str, Any]]:
    """Return a graph of nodes with the given inputs."""
    graph = torch.fx.Graph()
    nodes: dict[str, Any] = {}
    for name, inputs in edges.items():
        given = [nodes[each] for each in inputs.split()]
        nodes[name] = graph.call_function(torch.stack, (given,), name=name) if given else graph.placeholder(name)
    graph.output([nodes[name] for name in edges])
    return graph, nodes


def divided(edges: dict[str, str], *partitions: str, groups: tuple[str, ...] = ()) -> list[str]:
    graph, nodes = graph_of(edges)
    given = [Partition(number, [nodes[each] for each in names.split()]) for number, names in enumerate(partitions)]
    found = without_cycles(graph, given, [[nodes[each] for each in group.split()] for group in groups])
    assert len({each.id for each in found}) == len(found)
    return [" ".join(node.name for node in each.nodes) for each in found]


CROSSED = {"x": "", "a": "x", "b": "a", "c": "x", "d": "c", "e": "b d"}


def test_partitions_without_a_circle_stay_as_they_are() -> None:
    assert divided(CROSSED, "a b", "c d", "e") == ["a b", "c d", "e"]


def test_two_partitions_that_need_each_other_are_divided() -> None:
    edges = {"x": "", "a1": "x", "b1": "a1", "b2": "x", "a2": "b2", "c": "a2"}
    assert divided(edges, "a1 a2", "b1 b2", "c") == ["c", "a1", "a2", "b2", "b1"]


def test_a_partition_that_needs_itself_is_divided() -> None:
    edges = {"x": "", "a": "x", "outside": "a", "b": "outside", "c": "a"}
    assert divided(edges, "a b c") == ["a c", "b"]


def test_a_group_stays_together() -> None:
    edges = {"x": "", "a": "x", "outside": "a", "q": "x", "b": "outside q"}
    assert divided(edges, "a q b", groups=("q b",)) == ["a", "q b"]


def test_a_weight_that_an_earlier_node_uses_too_is_no_dependency() -> None:
    """As that of a language model's head, which is its embedding's: no call computes it."""
    edges = {"w": "", "x": "", "embedding": "w x", "a": "embedding", "outside": "a", "head": "outside w"}
    assert divided(edges, "a w head", groups=("w head",)) == ["a", "w head"]
    assert divided({**edges, "outside": "x"}, "a w head", groups=("w head",)) == ["a w head"]


@pytest.mark.parametrize("seed", range(20))
def test_no_circle_is_left(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"n{number}" for number in range(40)]
    edges = {
        name: " ".join(draw.sample(names[:index], min(index, draw.randint(0, 2)))) for index, name in enumerate(names)
    }
    members: dict[int, list[str]] = {}
    for name in names:
        if draw.random() < 0.7:
            members.setdefault(draw.randrange(6), []).append(name)
    found = divided(edges, *(" ".join(each) for each in members.values()))
    owners = {name: each for each in found for name in each.split()}
    needs: dict[str, set[str]] = {}
    for name, inputs in edges.items():
        own = owners.get(name, name)
        computed = [each for each in inputs.split() if edges[each]]  # inputs of the graph are computed by no partition
        needs.setdefault(own, set()).update({owners.get(each, each) for each in computed} - {own})
    assert list(TopologicalSorter(needs).static_order())
    assert sorted(owners) == sorted(name for each in members.values() for name in each)
