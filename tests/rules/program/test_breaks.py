"""What splits a program: connected nodes between partitions, with the bytes that cross and their lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from modelbuild.step import Step
from modelbuild_rules.model.steps.exported.program import save_program
from modelbuild_rules.program.steps import check
from tests.rules.program.conftest import XNNPACK

STACK = [
    {"kind": "xnnpack", "partitioning": "modelbuild_rules.backends.xnnpack.steps.partitioning", "attributes": XNNPACK},
    {"kind": "portable", "partitioning": "", "attributes": {"ops": None}},
]


class Split(nn.Module):
    """Two breaks of one and of three nodes; operators at the ends, which split nothing."""

    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.relu(torch.cumsum(x, 1))
        values, places = torch.relu(x + 1).sort(1)
        y = torch.relu(values.cumsum(1)[places[:, 0] % 2])
        z = torch.relu((y + 1).cumsum(0))
        return z, (y + 1).cumprod(1)


def breaks(module: nn.Module, inputs: tuple[Any, ...], folder: Path, dynamic: Any = None) -> list[dict[str, Any]]:
    program = torch.export.export(module, inputs, dynamic_shapes=dynamic)
    for name in ("program", "weights"):
        (folder / name).mkdir(parents=True)
    save_program(program, folder / "program", folder / "weights")
    places = {node.name: {"source": f"net.py:{number}"} for number, node in enumerate(program.graph.nodes)}
    (folder / "debug.json").write_text(json.dumps(places))
    inputs_of = {"program": (folder / "program",), "weights": (folder / "weights",), "debug": (folder / "debug.json",)}
    check.run(Step({"backends": STACK}, inputs_of, {"checked": folder / "checked.json"}, folder))
    checked = json.loads((folder / "checked.json").read_text())
    found = checked["breaks"]
    numbers = {node.name: f"net.py:{number}" for number, node in enumerate(program.graph.nodes)}
    assert {node["source"] for each in found for node in each["nodes"]} <= set(numbers.values())
    return found  # type: ignore[no-any-return]


def test_each_break_has_its_nodes_bytes_and_partitions(tmp_path: Path) -> None:
    first, second = breaks(Split(), (torch.ones(4, 6), torch.ones(2).long()), tmp_path)
    assert first["nodes"][0]["op"] == "aten.sort.default"
    assert "aten.cumsum.default" in {node["op"] for node in first["nodes"]}
    assert (first["reads"], first["read"]) == (4 * 6 * 4, 4 * 6 * 4)
    assert [node["op"] for node in second["nodes"]] == ["aten.cumsum.default"]
    assert (second["before"], second["after"]) == (first["after"], [f"p{int(first['after'][0][1:]) + 1}"])
    assert all(node["source"] for each in (first, second) for node in each["nodes"])


def test_bytes_of_a_dynamic_size_are_the_most(tmp_path: Path) -> None:
    rows = torch.export.Dim("rows", min=2, max=100)
    module = Module(lambda x: torch.relu(torch.relu(x).cumsum(1)))
    (found,) = breaks(module, (torch.ones(4, 6),), tmp_path, ({0: rows},))
    assert (found["reads"], found["read"]) == (100 * 6 * 4,) * 2


def test_a_whole_partition_has_no_break(tmp_path: Path) -> None:
    assert breaks(Module(lambda x: torch.relu(x) + 1), (torch.ones(4, 6),), tmp_path) == []


class Module(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)
