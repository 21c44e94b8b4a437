"""Stacks with a `cuda` backend: what is declared for them, and in which order backends may stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelbuild.actions import Action
from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.workspace import load_workspace

BUILD = """
[[torch_model]]
name = "model"
entry = "net.py:Net"
srcs = ["net.py"]
inputs = [{{ name = "x", shape = [2], dtype = "float32" }}]

[[pte_program]]
name = "program"
model = ":model"
stack = ":stack"
device = ":device"

[[device_target]]
name = "device"
arch = "x86_64"
compute_capability = ["8.6"]

[[backend_stack]]
name = "stack"
backends = [{backends}]
"""


def declared(folder: Path, *backends: str) -> list[Action]:
    """The actions of a program with a stack of tables, but for those that wait for its partitions."""
    (folder / "MODELBUILD.toml").write_text("")
    (folder / "net.py").touch()
    (folder / "BUILD.toml").write_text(BUILD.format(backends=", ".join(backends)))
    rules = load_rules(folder, ())
    analysis = Analyzer(Loader(load_workspace(folder), rules.by_name), rules)
    analysis.analyze(Label("", "program"))
    return [n for n in analysis.graph.nodes.values() if n.owner == "//:program" and isinstance(n, Action)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_backends_of_a_kind_share_what_they_are_linked_with(tmp_path: Path, count: int) -> None:
    tables = [f'{{ type = "cuda", min_block_size = {number + 1} }}' for number in range(count)]
    actions = declared(tmp_path, *tables, '{ type = "portable" }')
    assert [action.mnemonic for action in actions] == ["partition", "cpp_runtime"]
    assert [each["attributes"]["min_block_size"] for each in actions[0].params["backends"][:-1]] == [1, 2, 3][:count]


@pytest.mark.parametrize("order", [("tensorrt", "cuda", "xnnpack"), ("xnnpack", "cuda", "tensorrt", "cuda")])
def test_backends_stand_in_any_order(tmp_path: Path, order: tuple[str, ...]) -> None:
    actions = declared(tmp_path, *(f'{{ type = "{kind}" }}' for kind in order))
    assert [each["kind"] for each in actions[0].params["backends"]] == list(order)
    assert [action.mnemonic for action in actions].count("cpp_runtime") == 1


@pytest.mark.parametrize(
    ("backend", "reads"), [("cuda", False), ("tensorrt", True), ("xnnpack", False)], ids=lambda value: str(value)
)
def test_what_example_inputs_are_read_with_is_in_the_key_where_they_are(
    tmp_path: Path, backend: str, reads: bool
) -> None:
    """Partitions for TensorRT are run on the examples."""
    (partition, *_) = declared(tmp_path, f'{{ type = "{backend}" }}', '{ type = "portable" }')
    assert ("examples" in {each.name for each in partition.inputs}) == reads
    assert ("safetensors" in partition.tools) == reads
