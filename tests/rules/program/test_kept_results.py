"""Types and shapes are computed once for all passes of a lowering, and the programs stay the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir.pass_base import ExportPass
from torch import Tensor, nn

from modelbuild_rules.backend_api.steps.kept_results import computed_once
from modelbuild_rules.program.steps.lowering import pipeline
from modelbuild_rules.program.steps.lowering.rewrites.decomposition import decomposed, without_repetition
from modelbuild_runtime import read_description

aten = torch.ops.aten


class Selected(nn.Module):
    """Selects rows by two masks of the same size."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.layer(x).clamp(0)
        high, low = x[x[:, 0] > 0.5], x[x[:, 1] < 0.25]
        return torch.stack([high[:, 0], high[:, 1]], 1), torch.cat([low, low], 1) * 2, x.t() + 1


class Swapped(ExportPass):
    """Exchanges `gt` and `lt`, whose results have one type and shape."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        other = {aten.gt.Scalar: aten.lt.Scalar, aten.lt.Scalar: aten.gt.Scalar}
        return super().call_operator(other.get(op, op), args, kwargs, meta)


@pytest.fixture
def program() -> Any:
    return torch.export.export(Selected(), (torch.rand(6, 4),), strict=False)


def results(module: Any) -> list[Any]:
    return [node.meta["val"] for node in module.graph.nodes if node.op == "call_function"]


def test_a_pass_that_changes_nothing_computes_nothing(program: Any) -> None:
    with computed_once():
        first = ExportPass()(program.graph_module).graph_module
        second = ExportPass()(first).graph_module
    assert all(one is other for one, other in zip(results(first), results(second), strict=True))


def test_operators_after_a_changed_one_are_not_computed_again(program: Any) -> None:
    with computed_once():
        first = ExportPass()(program.graph_module).graph_module
        mask = next(node for node in first.graph.nodes if node.target == aten.gt.Scalar)
        mask.target = aten.ge.Scalar
        second = ExportPass()(first).graph_module
    assert all(one is other for one, other in zip(results(first), results(second), strict=True))


def test_different_operators_have_different_results_after_an_exchange(program: Any) -> None:
    with computed_once():
        for each in (ExportPass(), Swapped(), Swapped()):
            program.graph_module.graph = each(program.graph_module).graph_module.graph
            found = {node.target: node.meta["val"] for node in program.graph.nodes}
            assert found[aten.gt.Scalar] is not found[aten.lt.Scalar]
    selected = [node.meta["val"] for node in program.graph.nodes if node.target == aten.index.Tensor]
    assert len({value.shape[0].node.expr for value in selected}) == 2


def test_a_program_is_traced_again_only_for_operators_that_a_table_decomposes(program: Any) -> None:
    functional = decomposed(program, {})
    with without_repetition():
        assert functional.run_decompositions({}) is functional
        assert program.run_decompositions({}) is not program
        first = functional.run_decompositions({aten.stack.default: stacked})
        assert first is not functional
        assert first.run_decompositions({aten.stack.default: stacked}) is first
        assert not [node for node in first.graph.nodes if node.target == aten.stack.default]
    assert functional.run_decompositions({}) is not functional


def stacked(tensors: list[Tensor], dim: int = 0) -> Tensor:
    return torch.cat([each.unsqueeze(dim) for each in tensors], dim)


def test_programs_have_the_bytes_of_passes_that_compute_everything(
    program: Any, lower: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = lower(program, tmp_path / "quick").pte.read_bytes()
    monkeypatch.setattr(pipeline, "computed_once", nullcontext)
    monkeypatch.setattr(pipeline, "without_repetition", nullcontext)
    assert lower(program, tmp_path / "slow").pte.read_bytes() == quick


def test_a_dynamic_batch_of_a_convolution_keeps_its_range(lowered: Callable[[str], Any]) -> None:
    (port,) = read_description(lowered("conv_dynamic").pte).methods[0].inputs
    assert port.shape[0].max == 16
