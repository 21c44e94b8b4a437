"""Which actions have the most work behind them, in a graph that grows."""

from __future__ import annotations

import random
from collections.abc import Iterable

import networkx as nx
import pytest

from modelbuild.execution.scheduling.longest_paths import LongestPaths


def number(names: Iterable[str]) -> dict[str, float]:
    """`a7` takes 7 seconds; an action without a number takes none."""
    return {name: float(name[1:]) for name in names if name[1:]}


def test_it_is_the_longest_way_to_the_end_and_what_is_not_needed_does_not_count() -> None:
    dag = nx.DiGraph([("a1", "b2"), ("a1", "c5"), ("b2", "d9"), ("c5", "e1"), ("a1", "unneeded99")])
    paths = LongestPaths(dag, number)
    paths.add(["a1", "b2", "c5", "d9", "e1"])
    assert {name: paths[name] for name in ("a1", "b2", "c5", "d9", "e1")} == {
        **{"a1": 12, "b2": 11, "c5": 6, "d9": 9, "e1": 1}
    }


def test_actions_of_an_expansion_lengthen_paths_of_older_actions() -> None:
    dag = nx.DiGraph([("plan1", "x"), ("x", "last1"), ("base1", "other1")])
    dag = nx.relabel_nodes(dag, {"plan1": "p1", "last1": "l1", "base1": "b1", "other1": "o1"})
    paths = LongestPaths(dag, number)
    paths.add(["p1", "x", "l1", "b1", "o1"])
    assert paths["b1"] == 2
    dag.add_edges_from([("b1", "c7"), ("c7", "d2"), ("d2", "x")])
    paths.add(["c7", "d2"])
    assert {name: paths[name] for name in ("b1", "c7", "d2", "x", "o1")} == {
        "b1": 11,
        "c7": 10,
        "d2": 3,
        "x": 1,
        "o1": 1,
    }


@pytest.mark.parametrize("seed", range(10))
def test_growing_gives_what_all_at_once_gives(seed: int) -> None:
    drawn = random.Random(seed)
    names = [f"{chr(97 + n % 26)}{n}" for n in range(60)]
    dag = nx.DiGraph()
    dag.add_nodes_from(names)
    grown = LongestPaths(dag, number)
    waiting = drawn.sample(names, len(names))
    while waiting:
        some, waiting = waiting[:7], waiting[7:]
        known = set(names) - set(waiting)
        for name in some:
            for other in drawn.sample(sorted(known), min(4, len(known))):
                if int(name[1:]) != int(other[1:]):
                    dag.add_edge(*sorted((name, other), key=lambda each: int(each[1:])))
        grown.add(some)
    whole = LongestPaths(dag, number)
    whole.add(names)
    assert {name: grown[name] for name in names} == {name: whole[name] for name in names}
