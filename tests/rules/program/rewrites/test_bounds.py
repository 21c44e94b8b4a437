"""Bounds of sizes that depend on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from modelbuild_rules.operators.steps import detection_operators
from modelbuild_rules.operators.steps.sizes import upper
from modelbuild_rules.program.steps.lowering.rewrites.bounds import bound_sizes


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def bounds(function: Callable[..., Any], x: torch.Tensor) -> set[int]:
    """Return the bounds of the sizes that depend on values. The first dimension of x is dynamic, up to 30."""
    program = export(Call(function), (x,), dynamic_shapes=(({0: Dim("n", min=0, max=30)}),))
    assert bound_sizes(program) == ""
    return {int(each.upper) for symbol, each in program.range_constraints.items() if str(symbol).startswith("u")}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.unique, 120),
        (lambda x: torch.unique(x, dim=0, return_counts=True), 30),
        (lambda x: torch.unique(x, dim=-1), 4),
        (torch.unique_consecutive, 120),
        (lambda x: torch.unique_consecutive(x, dim=0), 30),
        (lambda x: torch.bincount(x.flatten().to(torch.uint8)), 256),
        (lambda x: torch.bincount(x.flatten().to(torch.int8)), 128),
        (lambda x: torch.bincount(x.flatten().to(torch.int8), minlength=200), 200),
        (torch.nonzero, 120),
    ],
)
def test_a_size_is_bounded_by_the_input(function: Callable[..., Any], expected: int) -> None:
    assert bounds(function, torch.zeros(9, 4, dtype=torch.int64)) == {expected}


def test_kept_boxes_are_bounded_wherever_the_operator_is_traced() -> None:
    """Passes of executorch trace a partition again, with other sizes."""
    detection_operators.register()
    kept = Call(lambda x: torch.ops.modelbuild_kernels.batched_nms(x, x[:, 0], x[:, 1].long(), 0.5))
    program = export(kept, (torch.zeros(9, 4),), dynamic_shapes=(({0: Dim("n", min=0, max=30)}),))
    assert [int(each.upper) for each in program.range_constraints.values()] == [30, 30]
    (made,) = (node.meta["val"].shape[0] for node in program.graph.nodes if "nms" in node.name)
    assert (upper(made), upper(7)) == (30, 7)


def test_constant_repeats_have_a_known_sum() -> None:
    assert bounds(lambda x: torch.repeat_interleave(x[0], torch.tensor([1, 4, 0, 2]), 0), torch.zeros(9, 4)) == {7}


def test_the_bound_of_the_model_is_kept() -> None:
    def counted(x: torch.Tensor) -> torch.Tensor:
        counts = torch.bincount(x)
        torch._check(counts.shape[0] <= 17)
        return counts

    assert bounds(counted, torch.zeros(9, dtype=torch.int64)) == {17}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            torch.bincount,
            "aten.bincount.default (node bincount from bincount): a size of its result depends on values and has no"
            " upper bound; expected one, as `torch._check(result.shape[0] <= 1000)` gives",
        ),
        (
            lambda x: torch.repeat_interleave(torch.ones(2, 3), x[:2], 0).exp(),
            "aten.repeat_interleave.self_Tensor (node repeat_interleave from repeat_interleave): a size of its result"
            " depends on values and has no upper bound; expected one, as `torch._check(result.shape[0] <= 1000)` or the"
            " argument `output_size` gives",
        ),
        (
            lambda x: torch.zeros(x.sum().item()).exp(),  # type: ignore[call-overload]
            "aten.item.default (node item from item): its number is used as a size and has no upper bound; expected"
            " one, as `torch._check(number <= 1000)` gives",
        ),
    ],
    ids=["bincount", "repeat_interleave", "item"],
)
def test_the_node_that_makes_an_unbounded_size_is_named(function: Callable[..., Any], expected: str) -> None:
    x = torch.zeros(9, dtype=torch.int64)
    program = export(Call(function), (x,), dynamic_shapes=(({0: Dim("n", min=0, max=30)}),))
    assert bound_sizes(program) == expected


def test_an_unbounded_number_that_is_no_size_is_accepted() -> None:
    assert bound_sizes(export(Call(lambda x: x * x.sum().item()), (torch.zeros(9, dtype=torch.int64),))) == ""
