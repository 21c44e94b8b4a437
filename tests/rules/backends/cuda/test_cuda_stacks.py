"""Stacks with a `cuda` backend: declared actions, and the order of backends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from modelbuild.actions import Action
from modelbuild.analysis.analyze import Analyzer

Declared = Callable[..., list[Action]]


@pytest.fixture
def declared(analysed: Callable[..., Analyzer]) -> Declared:
    """Return the actions of a program with a stack of tables, except those that wait for its partitions."""

    def actions(*backends: str) -> list[Action]:
        nodes = analysed(*backends).graph.nodes.values()
        return [node for node in nodes if node.owner == "//:program" and isinstance(node, Action)]

    return actions


@pytest.mark.parametrize("count", [1, 2, 3])
def test_backends_of_a_kind_share_what_they_are_linked_with(declared: Declared, count: int) -> None:
    tables = [f'{{ type = "cuda", min_block_size = {number + 1} }}' for number in range(count)]
    actions = declared(*tables, '{ type = "portable" }')
    assert [action.mnemonic for action in actions] == ["partition", "check", "cpp_runtime"]
    assert [each["attributes"]["min_block_size"] for each in actions[0].params["backends"][:-1]] == [1, 2, 3][:count]


@pytest.mark.parametrize("order", [("tensorrt", "cuda", "xnnpack"), ("xnnpack", "cuda", "tensorrt", "cuda")])
def test_backends_stand_in_any_order(declared: Declared, order: tuple[str, ...]) -> None:
    actions = declared(*(f'{{ type = "{kind}" }}' for kind in order))
    assert [each["kind"] for each in actions[0].params["backends"]] == list(order)
    assert [action.mnemonic for action in actions].count("cpp_runtime") == 1


@pytest.mark.parametrize(
    ("backend", "reads"), [("cuda", False), ("tensorrt", True), ("xnnpack", False)], ids=lambda value: str(value)
)
def test_what_example_inputs_are_read_with_is_in_the_key_where_they_are(
    declared: Declared, backend: str, reads: bool
) -> None:
    """Partitions for TensorRT are run on the examples."""
    (partition, *_) = declared(f'{{ type = "{backend}" }}', '{ type = "portable" }')
    assert ("examples" in {each.name for each in partition.inputs}) == reads
    assert ("safetensors" in partition.tools) == reads
