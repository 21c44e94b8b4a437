"""Operators that no kernel computes as eager mode does are replaced by others that compute the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import export

from modelbuild_rules.program.steps.lowering.rewrites.forms import CORRECTIONS, FORMS
from modelbuild_rules.program.steps.lowering.rewrites.replacing import with_forms
from tests.conformance.kinds import of_function

aten = torch.ops.aten
NAN, INF = math.nan, math.inf
WHOLE = torch.tensor([-7, -3, 0, 3, 7, 8])
OTHERS = torch.tensor([3, -2, 5, -5, -3, 4])
X = torch.tensor([-2.5, -0.0, 0.0, 1.5, NAN, INF, -INF])
Y = torch.tensor([1.5, -0.0, -2.0, 0.0, 3.0, NAN, -1.0])
IMAGE = torch.arange(48.0).reshape(1, 2, 4, 6)
VOLUME = torch.arange(192.0).reshape(1, 2, 4, 4, 6).sin()
PLACES = torch.tensor([0, 0, 2])
MAXIMA = F.max_pool2d(IMAGE, 2, return_indices=True)

Case = tuple[Callable[..., Any], tuple[Tensor, ...]]

WRONG: dict[str, Case] = {
    **{
        f"remainder of {dtype}": (torch.remainder, (WHOLE.to(dtype), OTHERS.to(dtype)))
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64)
    },
    "remainder by a number": (lambda x: (x % 3, x % -3), (WHOLE,)),
    **{
        f"floor_divide of {dtype}": (torch.floor_divide, (X.to(dtype), Y.to(dtype)))
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    },
    "floor_divide by 0": (lambda x: (x // 0.0, x // -0.0), (X,)),
    "floor_divide of large numbers": (torch.floor_divide, (torch.tensor([1e30, -1e30]), torch.tensor([2.0, 3.0]))),
    "div": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (X, Y)),
    "sign": (torch.sign, (X,)),
    "pad": (lambda x: F.pad(x, (-1, -2, 1, -1), value=3.0), (IMAGE,)),
    "log_softmax": (lambda x: F.log_softmax(x, -1, dtype=torch.float64), (IMAGE,)),
    "log_softmax of infinities": (lambda x: F.log_softmax(x, 0, dtype=torch.float64), (X[[0, 3, 6]],)),
    "to": (lambda x: x.to(torch.float64, non_blocking=True), (IMAGE,)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), (IMAGE.half(),)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2, return_indices=True), (VOLUME.bfloat16(),)),
    **{
        f"scatter_reduce of bool by {reduce}": (
            lambda x, i, s, reduce=reduce: x.scatter_reduce(0, i, s, reduce),
            (WHOLE[:3] > 0, PLACES, WHOLE[3:] > 5),
        )
        for reduce in ("amax", "amin", "prod")
    },
    "indices of int32": (
        lambda x, i: (x.gather(0, i), x.scatter(0, i, x), x.scatter(0, i, 2.0), x.scatter_add(0, i, x)),
        (X, (PLACES - 2).abs().int()),
    ),
    "grid_sampler_3d": (
        lambda x, grid: F.grid_sample(x, grid, align_corners=True),
        (VOLUME.half(), torch.tensor([[[[[-1, 1, -1], [1, 1, 1]]]]]).half()),
    ),
    "products without depth": (
        lambda x, y: (x @ y, x[None] @ y[None], torch.addmm(y.sum(0), x, y)),
        (torch.rand(2, 0), torch.rand(0, 3)),
    ),
    "a number": (lambda x: (x.sum(0), x.sum(-1, True), x.cumsum(0), x.unfold(0, 1, 1)), (X[0],)),
    "copysign of whole numbers": (torch.copysign, (WHOLE, X[:6])),
    "gradients of max_pool2d": (
        lambda grad, x, indices: aten.max_pool2d_with_indices_backward(
            grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices
        ),
        (MAXIMA[0].cos(), IMAGE, MAXIMA[1]),
    ),
}
WITHOUT_KERNEL: dict[str, Case] = {
    "<<": (lambda x: (x << 2, 2 << x, x << 64, x << -1), (WHOLE.abs(),)),
    "<< by others": (lambda x, y: x << y, (WHOLE, torch.tensor([0, 1, 63, 64, -1, 70]))),
    ">>": (lambda x, y: (x >> 1, x >> y, 64 >> y), (WHOLE, OTHERS.abs())),
    "copysign of a number": (lambda x: (torch.copysign(x, -2.0), torch.copysign(x, -0.0), torch.copysign(x, 0)), (X,)),
    "exp2": (torch.exp2, (X,)),
    "exp2 of whole numbers": (torch.exp2, (WHOLE,)),
    "logaddexp2": (torch.logaddexp2, (X, Y)),
    "fmax": (torch.fmax, (X, Y)),
    "fmin": (torch.fmin, (X, Y)),
    "hypot": (torch.hypot, (torch.tensor([1e30, 3e-30, 0.0, INF]), torch.tensor([1e30, 4e-30, 0.0, NAN]))),
    "round": (lambda x: (x.round(decimals=2), x.round(decimals=-1)), (torch.tensor([1.234, -123.4, NAN]),)),
    "angle": (torch.angle, (X,)),
    "addbmm": (torch.addbmm, (torch.ones(3, 5), torch.rand(2, 3, 4), torch.rand(2, 4, 5))),
    "addbmm without x": (
        lambda x, y, z: torch.addbmm(x, y, z, beta=0, alpha=2),
        (torch.full((5,), NAN), torch.rand(2, 3, 4), torch.rand(2, 4, 5)),
    ),
    "bilinear": (F.bilinear, (torch.rand(2, 3), torch.rand(2, 4), torch.rand(5, 3, 4))),
    "scatter": (lambda x, i, s: x.scatter(0, i, s, reduce="add"), (torch.rand(4), PLACES, torch.rand(3))),
    "scatter of a number": (lambda x, i: x.scatter(0, i, 2.0, reduce="multiply"), (torch.rand(4), PLACES)),
    "put": (lambda x, i, s: x.put(i, s, accumulate=True), (torch.rand(2, 3), PLACES - 1, torch.rand(3))),
    "nonzero_static": (lambda x: torch.nonzero_static(x, size=7), (WHOLE.reshape(2, 3),)),
    "diagonal_scatter": (
        lambda x, s: (x.diagonal_scatter(s, 1), x.diagonal_scatter(s, -1, 1, 0)),
        (torch.rand(4, 4), torch.rand(3)),
    ),
    "diagonal_scatter of three dimensions": (
        lambda x, s: x.diagonal_scatter(s, 0, -1, 0),
        (torch.rand(4, 5, 3), torch.rand(5, 3)),
    ),
    "as_strided_scatter": (
        lambda x, s: torch.as_strided_scatter(x, s, (2, 3), (4, 2), 1),
        (torch.rand(4, 4), torch.rand(2, 3)),
    ),
    "median": (torch.median, (torch.tensor([4.0, 1.0, 3.0, 2.0]),)),
    "nanmedian": (torch.nanmedian, (X,)),
    "nanmedian along a dimension": (
        lambda x: torch.nanmedian(x, 0),
        (torch.tensor([[1.0, NAN], [NAN, NAN], [3.0, NAN]]),),
    ),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 3)), (VOLUME,)),
    "a decomposition of torch": (torch.addmv, (torch.rand(3), torch.rand(3, 4), torch.rand(4))),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*WRONG, *WITHOUT_KERNEL])
def test_the_forms_compute_the_same(name: str) -> None:
    function, inputs = {**WRONG, **WITHOUT_KERNEL}[name]
    program = export(of_function(function)(), inputs)
    before = [node for node in program.graph.nodes if node.op == "call_function"]
    operators = {*FORMS, *CORRECTIONS, aten.addmv.default}
    made = with_forms(program, [node.name for node in before], operators, nested=False)
    torch.testing.assert_close(made.module()(*inputs), function(*inputs), equal_nan=True)
    assert not {node.target for node in made.graph.nodes} & {*FORMS, aten.addmv.default}


@pytest.mark.parametrize("function", [torch.erfc, lambda x: torch.igamma(x, x)])
def test_a_decomposition_without_kernels_is_not_used(function: Callable[..., Any]) -> None:
    program = export(of_function(function)(), (torch.rand(3, 3),))
    names = [node.name for node in program.graph.nodes]
    made = with_forms(program, names, [aten.erfc.default, aten.igamma.default], nested=False)
    assert {aten.erfc.default, aten.igamma.default} & {node.target for node in made.graph.nodes}
