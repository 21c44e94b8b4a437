"""The check of operators before a program is lowered: every reason at once, and none that is not one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch import nn

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.partitioning import Partitioning
from modelbuild_rules.backends.xnnpack.steps.partitioning import PARTITIONING
from modelbuild_rules.program.steps.lowering.stack import Stack, StackBackend
from modelbuild_rules.program.steps.lowering.unrunnable import Unrunnable

ATTRIBUTES = {
    "precisions": ["dynamic_quant", "fp32", "static_quant"],
    "per_op_mode": False,
    "exclude_ops": [],
    "force_non_static_weights_for_f32_linear": False,
    "lossy": [],
}


class Bad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.linear(x)
        small = x.to(torch.uint16)
        return torch.special.bessel_j0(y) + torch.special.bessel_j0(x), torch.special.airy_ai(y), small + small


def exported(module: nn.Module, *inputs: torch.Tensor) -> Any:
    return torch.export.export(module.eval(), inputs)


def edge(module: nn.Module, *inputs: torch.Tensor) -> Any:
    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(exported(module, *inputs), compile_config=config).exported_program()


def problems(program: Any, partitioning: Partitioning, rest: str | None) -> str:
    stack = Stack((StackBackend(0, "xnnpack", ATTRIBUTES, partitioning),), rest)
    return Unrunnable(program, stack).problems()


BAD = (Bad(), torch.ones(2, 4))


def test_every_reason_at_once_before_a_partition_is_made(lower: Callable[..., Any], tmp_path: Path) -> None:
    shown: list[str] = []
    with pytest.raises(StepError) as error:
        lower(exported(*BAD), tmp_path / "made", show=shown.append)
    *lines, last = str(error.value).splitlines()
    why = "xnnpack: no such XNNPACK operator"
    assert lines[:2] == [
        f"  aten.special_bessel_j0.default, 2 nodes: node aten_special_bessel_j0_default from special_bessel_j0; {why}",
        f"  aten.special_airy_ai.default, 1 node: node aten_special_airy_ai_default from special_airy_ai; {why}",
    ]
    assert any("aten.add.Tensor, 1 node: " in line for line in lines)
    assert "does not support these types: self uint16" in last
    assert "has no portable kernel for aten.special_bessel_j0.default" in last
    assert "aten.special_airy_ai.default" in last
    assert shown == [
        *("reading the program", "rewriting operators for the backends", "lowering"),
        *("rewriting operators without kernels", "lowering again 2"),
    ]


def test_without_a_fallback_every_operator_that_no_backend_takes(lower: Callable[..., Any], tmp_path: Path) -> None:
    class Sums(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x.cumsum(0)).cumprod(1).flip(0).roll(1, 0).cos()

    with pytest.raises(StepError) as error:
        lower(exported(Sums(), torch.ones(2, 3)), tmp_path / "made", portable=False)
    *lines, last = str(error.value).splitlines()
    assert [line.split(",")[0].strip() for line in lines][:2] == ["aten.cumsum.default", "aten.cumprod.default"]
    assert len(lines) > 3
    assert last.startswith("no backend of the stack takes aten.cumsum.default (")


def test_nodes_that_a_backend_takes_need_no_kernel() -> None:
    program = edge(nn.Linear(4, 4), torch.ones(2, 4))
    for rest in (None, "portable"):
        assert problems(program, PARTITIONING, rest) == ""


def test_the_check_changes_nothing_in_the_program() -> None:
    program = edge(*BAD)
    before = [(node.name, str(node.args), sorted(node.meta)) for node in program.graph.nodes]
    refused = PARTITIONING.refused(program, ATTRIBUTES)
    assert [(node.name, str(node.args), sorted(node.meta)) for node in program.graph.nodes] == before
    assert refused["aten_special_bessel_j0_default"] == "no such XNNPACK operator"
    assert not any("linear" in name or "addmm" in name for name in refused)


def test_a_backend_may_declare_what_it_takes_without_a_partitioner() -> None:
    class Everything(type(PARTITIONING)):  # type: ignore[misc]
        def refused(self, program: Any, attributes: Any) -> dict[str, str]:
            return {}

        def partitioner(self, attributes: Any, failed_nodes: Any) -> Any:
            raise AssertionError("asked although it declares its nodes")

    program = edge(*BAD)
    assert problems(program, Everything(), "portable") == ""
