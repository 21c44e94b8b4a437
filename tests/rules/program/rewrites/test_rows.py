"""Linear layers of inputs with exchanged dimensions become one product, with one copy of the weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from executorch.extension.pybindings._C import _load_for_executorch
from torch import Tensor, nn

from modelbuild_rules.program.steps.lowering.rewrites.rows import has_separate_rows, join_rows
from tests.portable_program import build_program

aten = torch.ops.aten


class Exchanged(nn.Module):
    """A layer and a product of all rows of exchanged dimensions, a layer of others, and a layer of every second row."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.plain = nn.Linear(6, 5), nn.Parameter(torch.rand(6, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        turned = x.transpose(0, 1)
        return self.layer(turned), turned @ self.plain, self.layer(x), self.layer(x[:, ::2])


def exported(module: nn.Module, x: Tensor, **options: object) -> torch.export.ExportedProgram:
    return torch.export.export(module.eval().requires_grad_(False), (x,), **options)  # type: ignore[arg-type]


def copied(program: torch.export.ExportedProgram) -> list[str]:
    """Return the names of the nodes that take copies."""
    copies = [node for node in program.graph.nodes if node.target is aten.clone.default]
    return [user.name for node in copies for user in node.users]


def test_inputs_of_exchanged_dimensions_are_copied_once_each() -> None:
    module, x = Exchanged(), torch.randn(3, 7, 6)
    program = exported(module, x)
    for _ in range(2):
        join_rows(program, set())
        assert copied(program) == ["linear", "matmul", "linear_2"]
    torch.testing.assert_close(program.module()(x), module(x))


def test_operators_that_stay_whole_are_left() -> None:
    program = exported(Exchanged(), torch.randn(3, 7, 6))
    assert has_separate_rows(program)
    join_rows(program, {aten.linear.default})
    assert copied(program) == ["matmul"]
    assert has_separate_rows(program)
    assert not has_separate_rows(join_rows(program, set()))


@pytest.mark.parametrize("dynamic", [False, True])
def test_attention_stores_no_repeated_weights(tmp_path: Path, dynamic: bool) -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.inner(x, x, x)[0]
            return result

    torch.manual_seed(0)
    module, x = Attention(), torch.randn(4, 5, 8)
    shapes = {"x": {0: torch.export.Dim("n", min=2, max=9)}} if dynamic else None
    made = build_program(exported(module, x, dynamic_shapes=shapes), tmp_path)
    operators = [node["op"] for node in json.loads(made.delegation.read_text())["nodes"]]
    assert operators.count("aten.addmm.default") == 2
    assert operators.count("aten.bmm.default") == 2  # of queries and keys, of weights and values
    method = _load_for_executorch(str(made.pte))
    torch.testing.assert_close(method.forward([x])[0], module(x))
