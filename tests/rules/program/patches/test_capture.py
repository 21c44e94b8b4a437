"""Partitions are extracted without compiling the rest of the program, which still runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.exir.backend import backend_api
from torch import Tensor, nn
from torch.fx import GraphModule

from modelbuild_rules.program.steps.lowering.patches import capture
from modelbuild_rules.program.steps.lowering.patches.capture import compiled_late


class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return ((x + 1).relu() * 2).relu()


def extracted(names: tuple[str, ...]) -> GraphModule:
    """Return a program without its nodes of these names: each is a partition of its own."""
    module: Any = torch.export.export(Net(), (torch.ones(3),)).graph_module
    for name in names:
        (node,) = (each for each in module.graph.nodes if each.name == name)
        backend_api.create_submodule_from_nodes(module, [node], name)
    return module  # type: ignore[no-any-return]


def test_a_program_is_compiled_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    make = capture._COMPILE
    monkeypatch.setattr(capture, "_COMPILE", lambda module: compiled.append(module) or make(module))
    names = ("relu", "mul", "relu_1")
    with compiled_late():
        module = extracted(names)
        assert module not in compiled
        assert len(compiled) == len(names)  # each partition once
        (found,) = module(torch.tensor([-2.0, 0.0, 3.0]))
    assert found.tolist() == [0.0, 2.0, 8.0]
    assert module in compiled
    assert [str(node.target) for node in module.graph.nodes if node.op == "call_module"] == [
        f"fused_{name}" for name in names
    ]


def test_the_code_is_that_of_the_whole_program() -> None:
    with compiled_late():
        module = extracted(("relu", "mul"))
    assert "fused_mul" in extracted(("relu", "mul")).code
    module(torch.ones(3))
    assert module.code == extracted(("relu", "mul")).code
