"""The order of actions: program by program, in a graph that grows."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from modelbuild.execution.scheduling.start_order import StartOrder


def number(names: Iterable[str]) -> dict[str, float]:
    """`a7` takes 7 seconds; an action without a number takes none."""
    return {name: float(name[1:]) for name in names if name[1:]}


def in_order(order: StartOrder, names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: order[name])


def test_the_longest_program_is_first_and_in_it_the_longest_path() -> None:
    # Two programs: a1, b2 -> c3; and d9 -> e9.
    dag = nx.DiGraph([("a1", "c3"), ("b2", "c3"), ("d9", "e9")])
    assert in_order(StartOrder(dag, number, dag, ()), dag) == ["d9", "e9", "b2", "a1", "c3"]


def test_programs_that_have_begun_are_first() -> None:
    dag = nx.DiGraph([("a1", "b1"), ("b1", "c1"), ("d9", "e9")])
    order = StartOrder(dag, number, ["b1", "c1", "d9", "e9"], {"a1"})
    assert in_order(order, ["b1", "c1", "d9", "e9"]) == ["b1", "c1", "d9", "e9"]


def test_a_node_that_several_programs_need_belongs_to_the_first_of_them() -> None:
    dag = nx.DiGraph([("s1", "a9"), ("s1", "b1"), ("t5", "b1")])
    assert in_order(StartOrder(dag, number, dag, ()), dag) == ["s1", "a9", "t5", "b1"]


def test_nodes_of_an_expansion_belong_to_its_program() -> None:
    dag = nx.DiGraph([("a1", "x"), ("b1", "c9")])
    order = StartOrder(dag, number, dag, {"a1"})
    dag.add_edges_from([("d4", "e1"), ("f2", "e1"), ("e1", "x")])
    order.add(["d4", "e1", "f2"])
    assert in_order(order, ["b1", "c9", "d4", "e1", "f2"]) == ["d4", "f2", "e1", "b1", "c9"]
