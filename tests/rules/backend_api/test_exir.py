"""backend_api/steps/exir.py: what it leaves out of a worker; programs come out as with the function of torch."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from modelbuild_rules.backend_api.steps import exir

LOADED = """
import sys
import modelbuild_rules.backend_api.steps.exir as exir
from executorch.exir.program import _program
print([name for name in ("torch._inductor.lowering", exir._REPLACED) if name in sys.modules])
print(_program.unsafe_remove_auto_functionalized_pass is exir.unsafe_remove_auto_functionalized_pass)
"""


def test_a_worker_imports_executorch_and_no_inductor() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True"]


@torch.library.custom_op("test_exir::fill", mutates_args=("x",))
def fill(x: Tensor, y: Tensor) -> None:
    x.copy_(y)


class Mutating(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made = x * 2
        torch.ops.test_exir.fill(made, x)
        return made + 1


class Plain(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu() + 1


def unused(program: Any) -> Any:
    """Add a node whose result is not used."""
    graph = program.graph
    first = next(node for node in graph.nodes if node.op == "call_function")
    with graph.inserting_after(first):
        graph.call_function(torch.ops.aten.neg.default, (first,))
    return program


@pytest.mark.parametrize("model", [Plain, Mutating])
def test_programs_are_those_of_torchs_function(model: type[torch.nn.Module]) -> None:
    from torch.export._remove_auto_functionalized_pass import unsafe_remove_auto_functionalized_pass

    def exported() -> Any:
        return unused(torch.export.export(model(), (torch.randn(2, 3),)).run_decompositions({}))

    kept = exported()
    assert any("auto_functionalized" in str(node.target) for node in kept.graph.nodes) == (model is Mutating)
    expected = unsafe_remove_auto_functionalized_pass(exported()).graph
    made = exir.unsafe_remove_auto_functionalized_pass(kept).graph
    assert str(made) == str(expected)
    assert "neg" not in str(made)
