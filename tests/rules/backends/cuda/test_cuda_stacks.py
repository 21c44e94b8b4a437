"""Stacks with a `cuda` backend: declared actions, and the order of backends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from modelbuild.actions import Action
from modelbuild.rule_runner import AnalysedTarget

Declared = Callable[..., dict[str, list[Action]]]


@pytest.fixture
def declared(analysed: Callable[..., AnalysedTarget]) -> Declared:
    """Return the actions of a program with a stack of tables by mnemonic, except those that wait for its partitions."""

    def actions(*backends: str) -> dict[str, list[Action]]:
        found: dict[str, list[Action]] = {}
        for action in analysed(*backends).actions.values():
            found.setdefault(action.mnemonic, []).append(action)
        return found

    return actions


@pytest.mark.parametrize("count", [1, 2, 3])
def test_backends_of_a_kind_share_what_they_are_linked_with(declared: Declared, count: int) -> None:
    tables = [f'{{ type = "cuda", min_block_size = {number + 1} }}' for number in range(count)]
    actions = declared(*tables, '{ type = "portable" }')
    assert {mnemonic: len(found) for mnemonic, found in actions.items()} == {
        "partition": 1,
        "weights": 1,
        "check": 1,
        "cpp_runtime": 1,
    }
    (partition,) = actions["partition"]
    assert [each["attributes"]["min_block_size"] for each in partition.params["backends"][:-1]] == [1, 2, 3][:count]


@pytest.mark.parametrize("order", [("tensorrt", "cuda", "xnnpack"), ("xnnpack", "cuda", "tensorrt", "cuda")])
def test_backends_stand_in_any_order(declared: Declared, order: tuple[str, ...]) -> None:
    actions = declared(*(f'{{ type = "{kind}" }}' for kind in order))
    assert [each["kind"] for each in actions["partition"][0].params["backends"]] == list(order)
    assert len(actions["cpp_runtime"]) == 1


@pytest.mark.parametrize(
    ("backend", "reads"), [("cuda", True), ("tensorrt", True), ("xnnpack", False)], ids=lambda value: str(value)
)
def test_readers_of_example_inputs_are_in_the_key(declared: Declared, backend: str, reads: bool) -> None:
    """Partitions that do not run here are compared with the program on a recorded call."""
    actions = declared(f'{{ type = "{backend}" }}', '{ type = "portable" }')
    (reader,) = actions["weights"]
    assert ("calls" in {each.name for each in reader.inputs}) == reads
    assert ("safetensors" in reader.tools) == reads


def test_a_program_is_lowered_without_weights_unless_it_has_only_portable_kernels(declared: Declared) -> None:
    def inputs(*backends: str) -> set[str]:
        return {each.name for each in declared(*backends)["partition"][0].inputs}

    kinds = ("cuda", "xnnpack", "tensorrt", "portable")
    cuda, xnnpack, tensorrt, portable = (f'{{ type = "{kind}" }}' for kind in kinds)
    assert inputs(cuda, portable) == inputs(cuda) == inputs(cuda, xnnpack, portable) == {"program"}
    assert inputs(cuda, tensorrt, portable) == inputs(tensorrt) == {"program"}
    assert inputs(portable) == {"program", "weights"}
