"""The order of a lowering, and what it repeats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild.step import StepError
from modelbuild_rules.backends.xnnpack.steps.partitioning import PARTITIONING
from modelbuild_rules.program.steps.lowering import pipeline
from modelbuild_rules.program.steps.lowering.pipeline import StackLowering
from modelbuild_rules.program.steps.lowering.stack import Stack, StackBackend

ATTRIBUTES = {
    "precisions": ["dynamic_quant", "fp32", "static_quant"],
    "per_op_mode": False,
    "exclude_ops": [],
    "force_non_static_weights_for_f32_linear": False,
    "lossy": [],
}


class Backend(type(PARTITIONING)):  # type: ignore[misc]
    """XNNPACK, which can't compile `broken` nodes, and counts the questions for its refusals."""

    def __init__(self, broken: str = "") -> None:
        self.broken = broken
        self.asked = 0

    def refused(self, program: Any, attributes: Mapping[str, Any]) -> dict[str, str]:
        self.asked += 1
        return super().refused(program, attributes)  # type: ignore[no-any-return]

    def failure(self, program: Any, attributes: Mapping[str, Any]) -> dict[str, str]:
        found = [node.name for node in program.graph.nodes if self.broken and self.broken in node.name]
        return dict.fromkeys(found, "it is broken")

    def partitioner(self, attributes: Mapping[str, Any], failed_nodes: Mapping[str, str]) -> Any:
        failed = {name.removeprefix("aten_").split("_default")[0] for name in failed_nodes}
        return super().partitioner({**attributes, "exclude_ops": [f"aten.{name}.default" for name in failed]}, {})


class Net(nn.Module):
    """Has operators for which nothing is rewritten."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).sigmoid().cumsum(0)


class Rewritten(Net):
    """Has an operator that is always replaced, and one that XNNPACK refuses and that no kernel computes."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.hypot(super().forward(x), x)[x[:, 0] > 0]


class Unbounded(nn.Module):
    """Has a size without an upper bound, and an operator without a kernel."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.bincount(x), torch.special.airy_ai(x.float())


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the programs that executorch is asked to lower."""
    asked: list[Any] = []
    lower = pipeline.to_edge_transform_and_lower

    def counted(program: Any, *given: Any, **options: Any) -> Any:
        asked.append(program)
        return lower(program, *given, **options)

    monkeypatch.setattr(pipeline, "to_edge_transform_and_lower", counted)
    return asked


def begin(module: nn.Module, x: Tensor, folder: Path, backend: Backend, shown: list[str]) -> StackLowering:
    program = torch.export.export(module.eval(), (x,), strict=False)
    stack = Stack((StackBackend(0, "xnnpack", ATTRIBUTES, backend),), "portable")
    return StackLowering(program, stack, folder, lambda part, *_: shown.append(part))


def test_a_check_lowers_once_and_makes_no_partition(tmp_path: Path, lowerings: list[Any]) -> None:
    backend, shown = Backend(), []  # type: ignore[var-annotated]
    lowering = begin(Net(), torch.rand(3, 4), tmp_path, backend, shown)
    lowering.check()
    assert (len(lowerings), backend.asked, list(tmp_path.iterdir())) == (1, 0, [])
    assert shown == ["rewriting operators for the backends", "lowering", "nodes for xnnpack"]
    assert lowering.nodes == 3


def test_a_program_is_lowered_again_only_where_nodes_are_rewritten(tmp_path: Path, lowerings: list[Any]) -> None:
    backend, shown = Backend(), []  # type: ignore[var-annotated]
    begin(Rewritten(), torch.rand(3, 4), tmp_path, backend, shown).check()
    assert shown == [
        *("rewriting nonzero", "rewriting operators for the backends", "lowering"),
        *("rewriting operators without kernels", "lowering again", "nodes for xnnpack"),
    ]
    assert len(lowerings) == 2
    assert backend.asked <= 2  # once for each program, whatever asks


def test_a_partition_that_cannot_be_compiled_leaves_its_node_to_the_next_backend(
    tmp_path: Path, lowerings: list[Any]
) -> None:
    shown: list[str] = []
    lowering = begin(Net(), torch.rand(3, 4), tmp_path, Backend("sigmoid"), shown)
    lowering.lower()
    assert len(lowerings) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["p0"]
    taken = {fact.op: fact.backend for fact in lowering.complete()}
    assert taken == {
        "aten.linear.default": "xnnpack",
        "aten.sigmoid.default": "portable",
        "aten.cumsum.default": "portable",
    }


def test_sizes_without_bounds_are_reported_with_the_operators(tmp_path: Path, lowerings: list[Any]) -> None:
    lowering = begin(Unbounded(), torch.tensor([1, 2]), tmp_path, Backend(), [])
    with pytest.raises(StepError) as error:
        lowering.lower()
    operators, sizes = str(error.value).split("; aten.bincount.default (")
    assert "aten.special_airy_ai.default" in operators
    assert "has no upper bound" in sizes
    assert list(tmp_path.iterdir()) == []
