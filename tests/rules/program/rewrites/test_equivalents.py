"""Operators that are replaced by equivalent ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import export

from modelbuild_rules.program.steps.lowering.rewrites.equivalents import has_equivalents, with_equivalents

ROWS = torch.tensor([0, 2, 4, 6])


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(*tensors)


def of(reduction: str, dim: int = 0, include_self: bool = True) -> Callable[..., Tensor]:
    return lambda x, index, source: torch.index_reduce(x, dim, index, source, reduction, include_self=include_self)


def interpolated(mode: str, **how: Any) -> Callable[..., Tensor]:
    return lambda x: nn.functional.interpolate(x, mode=mode, **how)


def with_infinities(*shape: int) -> Tensor:
    """Return values of which neighbours are infinite."""
    x = torch.randn(shape)
    x[..., -2:], x[..., 0] = float("inf"), float("-inf")
    return x


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (torch.ops.aten._is_all_true, (ROWS < 6,)),
        (torch.ops.aten._is_any_true, (ROWS > 6,)),
        *(
            (
                lambda x, shifts=shifts, dims=dims: torch.roll(x, shifts, dims),
                (torch.randn(3, 0, 2) if empty else ROWS.reshape(2, 2),),
            )
            for shifts, dims, empty in (
                (1, None, False),
                ((1, -1), (0, 1), False),
                ((5, 1), (-1, 1), False),
                (2, 1, False),
                (1, 1, True),
            )
        ),
        (torch.ops.aten._is_all_true, (ROWS < 7,)),
        *(
            (interpolated(mode, antialias=True, **how), (x,))
            for mode in ("bicubic", "bilinear")
            for how, x in (
                ({"size": (5, 7)}, torch.rand(1, 2, 11, 9)),
                ({"size": (16, 4)}, torch.rand(2, 1, 7, 13, dtype=torch.float64)),
                ({"scale_factor": (0.4, 1.7)}, torch.rand(1, 3, 14, 10)),
                ({"size": (5, 2), "align_corners": True}, torch.rand(1, 3, 14, 10)),
                ({"size": (5, 7)}, with_infinities(1, 2, 11, 19)),
                ({"size": (15, 27)}, with_infinities(1, 2, 11, 19)),
            )
        ),
        (interpolated("linear", scale_factor=1.7), (with_infinities(2, 3, 9),)),
        (interpolated("linear", size=4, align_corners=True), (torch.rand(2, 3, 9).half(),)),
        (interpolated("trilinear", scale_factor=2), (with_infinities(1, 2, 3, 4, 6),)),
        (interpolated("trilinear", scale_factor=1.4), (torch.rand(1, 1, 2, 5, 5),)),  # rows keep their number
        (interpolated("trilinear", size=(3, 1, 4), align_corners=True), (torch.rand(1, 2, 3, 4, 2),)),
        *(
            (of(reduction, dim, include_self), (torch.rand(4, 4), torch.tensor([3, 0, 3, 1]), torch.rand(4, 4)))
            for reduction in ("prod", "mean", "amax", "amin")
            for dim in (0, -1)
            for include_self in (True, False)
        ),
        (of("mean"), (torch.tensor([-7, 5]), torch.tensor([0, 0], dtype=torch.int32), torch.tensor([1, 1]))),
        (of("amax"), (torch.tensor(1.0), torch.tensor(0), torch.tensor(3.0))),
        (lambda x: torch.searchsorted(x, 4), (ROWS,)),
        (lambda x: torch.searchsorted(x, 3.5, right=True, out_int32=True), (ROWS,)),
        (lambda x: torch.searchsorted(x, 4, side="right"), (ROWS.float(),)),
        (lambda x: torch.bucketize(4, x, right=True), (ROWS,)),
        (lambda x: torch.bucketize(1, x), (ROWS > 2,)),
        (torch.searchsorted, (ROWS, torch.tensor([0.5, 4.0]))),
        (lambda x: x[:, :4] * 2, (torch.rand(3, 4),)),
        (torch.bucketize, (torch.tensor([1, 9], dtype=torch.int32), ROWS.double())),
    ],
)
def test_the_same_values_without_the_operators(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> None:
    program = with_equivalents(export(Call(function), inputs))
    made, expected = program.module()(*inputs), function(*inputs)
    assert made.dtype == expected.dtype
    torch.testing.assert_close(made, expected, equal_nan=True)
    for node in program.graph.nodes:
        assert node.target not in (torch.ops.aten.index_reduce.default, torch.ops.aten.searchsorted.Scalar)
        assert node.target not in (torch.ops.aten.bucketize.Scalar, torch.ops.aten.alias.default)
        assert "bicubic" not in str(node.target)
        assert "linear" not in str(node.target)
        assert "_true" not in str(node.target)
        if node.target in (torch.ops.aten.searchsorted.Tensor, torch.ops.aten.bucketize.Tensor):
            assert len({each.meta["val"].dtype for each in node.args[:2]}) == 1


def assigned(x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    y, z = x.clone(), x * 1
    y[k] = 7
    z[:, k] += x[:, 0]
    return y, z


@pytest.mark.parametrize(
    "function", [lambda x, k: (x[k], x[:, k], x[k, 1:3], x.flatten()[x.argmin()], x[k][k.abs()]), assigned]
)
@pytest.mark.parametrize("place", [2, -1])
def test_an_index_that_depends_on_values(function: Callable[..., Any], place: int) -> None:
    inputs = torch.randn(4, 4), torch.tensor(place)
    program = with_equivalents(export(Call(function), inputs))
    torch.testing.assert_close(program.module()(*inputs), function(*inputs))
    assert not has_equivalents(program)


def test_types_that_are_equal_need_no_equivalent() -> None:
    assert has_equivalents(export(Call(torch.searchsorted), (ROWS, ROWS.float())))
    assert not has_equivalents(export(Call(torch.searchsorted), (ROWS, ROWS)))
