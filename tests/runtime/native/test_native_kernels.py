"""modelbuild's own kernels in the C++ runtime, against eager mode: values, ties, empty inputs, sizes, refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from modelbuild_rules.kernels.steps import builtin
from modelbuild_rules.operators.steps import detection_operators
from tests.portable_program import Built, build_program
from tests.runtime.native.kernel_results import NAN, Inputs, Run, compare, numbers, run, uniform
from tests.runtime.native.test_native_counting_kernels import OPERATORS as COUNTING


class Call(torch.nn.Module):
    """Calls an operator with fixed numbers after its tensors, or with a dimension after the first."""

    def __init__(self, operator: str, *numbers: Any) -> None:
        super().__init__()
        self.operator = operator
        self.numbers = numbers

    def forward(self, *tensors: Tensor) -> Any:
        namespace, _, name = self.operator.partition("::")
        function = getattr(getattr(torch.ops, namespace), name)
        if name == "scatter_reduce":
            dimension, reduction, include_self = self.numbers
            return function(tensors[0], dimension, *tensors[1:], reduction, include_self=include_self)
        if name == "multiscale_roi_align":
            return function(list(tensors[2:]), *tensors[:2], *self.numbers)
        if name in ("searchsorted", "bucketize"):
            right, narrow, *sorter = self.numbers
            more = {"sorter": tensors[2]} if sorter else {}
            return function(*tensors[:2], right=right, out_int32=narrow, **more)
        if name in ("tril_indices", "triu_indices"):  # a number of no consequence makes it depend on the input
            return tensors[0].long() + function(*self.numbers)
        if name == "linalg_solve_triangular":
            return function(*tensors, upper=False)
        if name == "polygamma":
            return function(*self.numbers, *tensors)
        return function(*tensors, *self.numbers)


@dataclass(frozen=True)
class Case:
    """An operator with numbers, and inputs for it. `dynamic` are the dimensions of them that differ, up to `most`."""

    operator: str
    numbers: tuple[Any, ...]
    inputs: Sequence[Inputs]
    dynamic: tuple[Mapping[int, str], ...] = ()
    tolerance: float = 0
    most: int = 64


def boxes(count: int, seed: int, kind: torch.dtype = torch.float32) -> Tensor:
    drawn = torch.Generator().manual_seed(seed)
    corners = torch.rand(count, 2, generator=drawn, dtype=kind) * 20
    return torch.cat([corners, corners + torch.rand(count, 2, generator=drawn, dtype=kind) * 12], 1)


def regions(images: int, count: int, seed: int) -> Tensor:
    drawn = torch.Generator().manual_seed(seed)
    numbers = torch.randint(images, (count, 1), generator=drawn).float()
    # Some begin outside the image, and some are empty.
    edges = boxes(count, seed) - 4
    edges[::5, 2:] = edges[::5, :2]
    return torch.cat([numbers, edges], 1)


NMS = Case(
    "torchvision::nms",
    (0.4,),
    [
        (boxes(30, 1), uniform(30, seed=2)),
        (boxes(64, 3), uniform(64, seed=4)),
        (boxes(0, 0), uniform(0)),
        (boxes(1, 5), uniform(1)),
        (boxes(40, 6), torch.zeros(40)),  # ties: the first box is the best
        (boxes(40, 7).repeat(1, 1), torch.arange(40.0) // 8),
        (boxes(20, 8)[:1].repeat(20, 1), torch.arange(20.0)),  # equal boxes
        (torch.zeros(5, 4), torch.rand(5)),  # empty boxes overlap nothing
        (boxes(6, 9), torch.tensor([0.1, float("nan"), 0.5, float("inf"), -float("inf"), float("nan")])),
    ],
    ({0: "n"}, {0: "n"}),
)


def batched(count: int, classes: int, seed: int, kind: torch.dtype = torch.float32) -> Inputs:
    """Return boxes, scores without ties, and classes."""
    scores = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).to(kind)
    return boxes(count, seed, kind), scores, numbers(classes, count, seed=seed)


def odd(maps: Tensor) -> Tensor:
    """Put NaN and infinities into maps."""
    maps[0, 0, 5, 6] = maps[1, 2, 13, 0] = NAN
    maps[0, 1, 2, 3], maps[1, 1, 4, 4] = math.inf, -math.inf
    return maps


UNARY = (
    "special_erfcx",
    "special_i1",
    "special_i1e",
    "special_log_ndtr",
    "special_modified_bessel_i0",
    "special_modified_bessel_i1",
    "special_modified_bessel_k0",
    "special_modified_bessel_k1",
    "special_ndtri",
    "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1",
    "special_spherical_bessel_j0",
)
POLYNOMIALS = (
    "special_chebyshev_polynomial_t",
    "special_chebyshev_polynomial_u",
    "special_chebyshev_polynomial_v",
    "special_chebyshev_polynomial_w",
    "special_hermite_polynomial_h",
    "special_hermite_polynomial_he",
    "special_laguerre_polynomial_l",
    "special_legendre_polynomial_p",
    "special_shifted_chebyshev_polynomial_t",
    "special_shifted_chebyshev_polynomial_u",
    "special_shifted_chebyshev_polynomial_v",
    "special_shifted_chebyshev_polynomial_w",
)
X = torch.tensor([-1.0, -0.3, 0.0, 1.0, 1.5])
MATRIX = uniform(2, 3, 3) + torch.eye(3)
POSITIVE = MATRIX @ MATRIX.mT + torch.eye(3)

CASES: Mapping[str, Case] = {
    "nms": NMS,
    "batched_nms": Case(
        "modelbuild_kernels::batched_nms",
        (0.4,),
        [
            *(batched(count, 5, count) for count in (30, 0, 1, 1000)),
            *(batched(count, 1000, count) for count in (1000, 1001, 2000)),  # rounded up to 1000 boxes, then exact
            (boxes(40, 6), torch.zeros(40), numbers(2, 40)),
            (boxes(9, 7) - 30, uniform(9), numbers(3, 9)),  # the classes are not apart
            (torch.full((3, 4), float("nan")), uniform(3), numbers(2, 3)),
        ],
        ({0: "n"}, {0: "n"}, {0: "n"}),
        most=2000,
    ),
    "batched_nms_float64": Case("modelbuild_kernels::batched_nms", (0.25,), [batched(1200, 3, 2, torch.float64)]),
    **{
        f"multiscale_roi_align_{ratio}": Case(
            "modelbuild_kernels::multiscale_roi_align",
            ([0.5, 0.25], 3, 4, ratio),
            [
                (regions(2, count, count), numbers(2, count), uniform(2, 3, 11, 13), uniform(2, 3, 6, 7))
                for count in (10, 0, 1, 64)
            ],
            ({0: "n"}, {0: "n"}, {}, {}),
            tolerance=1e-5,
        )
        for ratio in (-1, 2)
    },
    **{
        f"bicubic_peaks_{bits}": Case(
            "modelbuild_kernels::bicubic_peaks",
            (),
            [
                *(
                    (uniform(count, 3, 14, 12, kind=kind), numbers(60, count) + 1, numbers(200, count, seed=1) + 1)
                    for count in (10, 0, 1)
                ),
                (uniform(2, 3, 14, 12, kind=kind), torch.tensor([14, 28]), torch.tensor([12, 640])),
                (torch.zeros(1, 3, 14, 12, dtype=kind), torch.tensor([9]), torch.tensor([7])),  # the first is the peak
                (odd(uniform(2, 3, 14, 12, kind=kind)), torch.tensor([31, 5]), torch.tensor([17, 90])),
            ],
            ({0: "n"}, {0: "n"}, {0: "n"}),
            tolerance=1e-6,
        )
        for bits, kind in ((32, torch.float32), (64, torch.float64))
    },
    "nms_float64": Case("torchvision::nms", (0.25,), [(boxes(30, 1, torch.float64), uniform(30, kind=torch.float64))]),
    "nms_keeps_all": Case("torchvision::nms", (1.0,), [(boxes(30, 1), uniform(30))]),
    "nms_whole_threshold": Case("torchvision::nms", (0,), [(boxes(30, 1), uniform(30))]),
    **{
        f"roi_align_{'aligned' if aligned else 'plain'}_{ratio}": Case(
            "torchvision::roi_align",
            (0.5, 3, 4, ratio, aligned),
            [(uniform(2, 3, 11, 13), regions(2, count, count)) for count in (10, 0, 1, 64)],
            ({}, {0: "n"}),
            tolerance=1e-5,
        )
        for aligned in (False, True)
        for ratio in (-1, 2)
    },
    "roi_align_float64": Case(
        "torchvision::roi_align",
        (1.0, 2, 2, 0, True),
        [(uniform(1, 2, 5, 6, kind=torch.float64), regions(1, 7, 3).double())],
        tolerance=1e-12,
    ),
    "deform_conv2d": Case(
        "torchvision::deform_conv2d",
        (1, 1, 1, 1, 1, 1, 1, 1, True),
        [(uniform(2, 4, 7, 6), uniform(6, 4, 3, 3), uniform(2, 18, 7, 6) * 3, uniform(2, 9, 7, 6), uniform(6))],
        tolerance=1e-4,
    ),
    "deform_conv2d_groups": Case(
        "torchvision::deform_conv2d",
        (2, 1, 0, 2, 1, 2, 2, 4, False),
        [(uniform(1, 4, 9, 8), uniform(6, 2, 3, 2), uniform(1, 48, 4, 10) * 3, uniform(1, 1), uniform(6))],
        tolerance=1e-4,
    ),
    **{
        f"sort_{dimension}_{'down' if descending else 'up'}": Case(
            "aten::sort",
            (dimension, descending),
            [(uniform(count, 5, 3).mul(3).round(),) for count in (4, 0, 1, 9)],
            ({0: "n"},),
        )
        for dimension in (0, 1, -1)
        for descending in (False, True)
    },
    "sort_nan": Case("aten::sort", (0, True), [(torch.tensor([1.0, float("nan"), 3.0, -float("inf"), float("nan")]),)]),
    "sort_int": Case("aten::sort", (), [(torch.tensor([[3, -1, 3], [2, 0, 2]]),)]),
    "sort_bool": Case("aten::sort", (), [(torch.tensor([True, False, True]),)]),
    "sort_uint8": Case("aten::sort", (), [(torch.tensor([200, 3, 255, 3], dtype=torch.uint8),)]),
    "sort_number": Case("aten::sort", (), [(torch.tensor(2.5),)]),
    **{
        f"scatter_reduce_{reduction}_{dimension}_{'with' if include_self else 'without'}_self": Case(
            "aten::scatter_reduce",
            (dimension, reduction, include_self),
            [(uniform(4, 5), numbers(4, 3, 5, seed=seed), uniform(4, 7)) for seed in range(2)],
            tolerance=1e-6,
        )
        for reduction in ("sum", "prod", "mean", "amax", "amin")
        for include_self in (True, False)
        for dimension in (0, -1)
    },
    "scatter_reduce_int": Case(
        "aten::scatter_reduce",
        (0, "mean", True),
        [(torch.tensor([-7, 5, 2]), torch.tensor([0, 0, 1]), torch.tensor([1, 1, -4]))],
    ),
    **{
        f"{name}_{rows}x{columns}_{offset}": Case(f"aten::{name}", (rows, columns, offset), [(torch.zeros(1),)])
        for name in ("tril_indices", "triu_indices")
        for rows, columns, offset in ((4, 4, 0), (3, 5, -1), (5, 3, 2), (2, 2, -5))
    },
    **{
        f"grid_sampler_3d_{mode}{padding}{int(aligned)}": Case(
            "aten::grid_sampler_3d",
            (mode, padding, aligned),
            [(uniform(2, 3, 4, 5, 6), uniform(2, 3, 2, 4, 3, seed=n) * 2.5) for n in range(2)],
            tolerance=1e-5,
        )
        for mode in (0, 1)
        for padding in (0, 1, 2)
        for aligned in (False, True)
    },
    **{
        f"grid_sampler_2d_{mode}{padding}{int(aligned)}": Case(
            "aten::grid_sampler_2d",
            (mode, padding, aligned),
            [(uniform(2, 3, 5, 6), uniform(2, 9, 9, 2, seed=n) * 2.5) for n in range(2)],
            ({0: "n"}, {0: "n"}),
            tolerance=1e-5,
        )
        for mode in (0, 1, 2)
        for padding in (0, 1, 2)
        for aligned in (False, True)
    },
}


CASES = {
    **CASES,
    **{
        f"{name}_{dimension}": Case(
            f"aten::{name}",
            (dimension,),
            [(uniform(count, 5, 3).mul(3).round(),) for count in (4, 0, 1, 9)],
            ({0: "n"},),
            tolerance=1e-6,
        )
        for name in ("cumprod", "cummax", "cummin")
        for dimension in (0, -1)
    },
    **{
        f"{name}_nan": Case(f"aten::{name}", (0,), [(torch.tensor([1.0, 3.0, NAN, 4.0, NAN, 2.0]),)])
        for name in ("cumprod", "cummax", "cummin")
    },
    "cumprod_int32": Case("aten::cumprod", (1,), [(torch.tensor([[3, -1, 7], [2, 0, 5]], dtype=torch.int32),)]),
    "cumprod_bool": Case("aten::cumprod", (0,), [(torch.tensor([True, True, False, True]),)]),
    "cumprod_half": Case("aten::cumprod", (0,), [(uniform(7).half(),)]),
    "cumprod_number": Case("aten::cumprod", (0,), [(torch.tensor(2.5),)]),
    "cummax_uint8": Case("aten::cummax", (0,), [(torch.tensor([3, 200, 5, 200], dtype=torch.uint8),)]),
    "cummin_bool": Case("aten::cummin", (0,), [(torch.tensor([True, False, True]),)]),
    **{
        f"searchsorted_{'right' if right else 'left'}_{'rows' if rows else 'row'}": Case(
            "aten::searchsorted",
            (right, right),
            [(uniform(*((2, 3) if rows else ()), 6).mul(4).round().sort().values, uniform(2, 3, 7, seed=1) * 4)],
        )
        for right in (False, True)
        for rows in (False, True)
    },
    "searchsorted_sorter": Case(
        "aten::searchsorted",
        (False, False, "sorter"),
        [(torch.tensor([3, 1, 2]), torch.tensor([[0, 3], [2, 9]]), torch.tensor([1, 2, 0]))],
    ),
    "searchsorted_nan": Case(
        "aten::searchsorted", (False, False), [(torch.tensor([1.0, 2.0, NAN]), torch.tensor([NAN, 2.0, 3.0]))]
    ),
    "searchsorted_empty": Case("aten::searchsorted", (True, False), [(torch.zeros(0), uniform(3))]),
    "bucketize": Case("aten::bucketize", (True, False), [(uniform(3, 4) * 3, torch.tensor([-2.0, 0.0, 0.0, 1.5]))]),
    "bucketize_int": Case("aten::bucketize", (False, True), [(numbers(9, 6), torch.tensor([1, 3, 3, 7]))]),
    **{
        f"kthvalue_{k}_{dimension}": Case(
            "aten::kthvalue",
            (k, dimension, keep),
            [(uniform(count, 4, 3, seed=count),) for count in (5, 3, 8)],
            ({0: "n"},),
        )
        for k, dimension, keep in ((1, 1, False), (3, 2, True), (2, -2, False))
    },
    "kthvalue_nan": Case("aten::kthvalue", (2, 0, False), [(torch.tensor([NAN, 1.0, 3.0]),)]),
    **{
        f"median_{dimension}": Case(
            "aten::median", (dimension, dimension == 0), [(uniform(4, 7, 3, seed=1),), (uniform(4, 7, 3, seed=2),)]
        )
        for dimension in (0, 1, -1)
    },
    "median_nan": Case("aten::median", (1, False), [(torch.tensor([[1.0, NAN, NAN], [3.0, 1.0, 2.0]]),)]),
    "median_int": Case("aten::median", (0, False), [(torch.tensor([5, 1, 9, 3]),)]),
    **{
        f"max_pool3d_{number}": Case("aten::max_pool3d_with_indices", window, [(uniform(2, 3, 5, 7, 6, seed=number),)])
        for number, window in enumerate(
            (
                ([2, 2, 2],),
                ([3, 2, 3], [2, 1, 2], [1, 0, 1]),
                ([2, 3, 2], [2, 2, 2], [1, 1, 0], [2, 1, 2]),
                ([3, 3, 3], [2, 2, 2], [1, 1, 1], [1, 1, 1], True),
            )
        )
    },
    "max_pool3d_nan": Case(
        "aten::max_pool3d_with_indices", ([2, 2, 2],), [(torch.arange(27.0).reshape(1, 3, 3, 3).log().sub(1).sqrt(),)]
    ),
    **{
        f"avg_pool3d_{number}": Case(
            "aten::avg_pool3d", window, [(uniform(2, 3, 5, 7, 6, seed=number),)], tolerance=1e-6
        )
        for number, window in enumerate(
            (
                ([2, 2, 2],),
                ([3, 2, 3], [2, 1, 2], [1, 0, 1]),
                ([3, 3, 3], [2, 2, 2], [1, 1, 1], True, False),
                ([3, 3, 3], [2, 2, 2], [1, 1, 1], True, True),
                ([2, 3, 2], [2, 2, 2], [0, 1, 1], False, True, 5),
            )
        )
    },
    **{
        f"adaptive_max_pool2d_{rows}x{columns}": Case(
            "aten::adaptive_max_pool2d", ([rows, columns],), [(uniform(2, 3, 7, 5),)]
        )
        for rows, columns in ((1, 1), (3, 2), (7, 5), (9, 4))
    },
    **{
        f"{name}_{case}": Case(f"aten::{name}", (), [(inputs,)], tolerance=2e-3 if case == "half" else 1e-5)
        for name in ("erfc", "erfinv", "lgamma", "digamma", "i0", "special_i0e", "signbit")
        for case, inputs in (
            ("odd", torch.tensor([-2.5, -0.0, 0.0, 0.95, -0.3, 1.0, NAN, -NAN, math.inf, -math.inf, 30.0, 60.0])),
            ("int", torch.arange(-3, 12)),
            ("half", uniform(9).half()),
        )
    },
    **{
        f"{name}_odd": Case(
            f"aten::{name}", (), [(torch.tensor([-0.0, 0.0, 0.95, 1.0, NAN, 2.5, 30.0, 60.0]),)], tolerance=1e-5
        )
        for name in UNARY
    },
    **{
        f"{name}_odd": Case(f"aten::{name}", (), [(X, torch.tensor([0.0, 1.0, 2.0, 5.0, 7.0]))], tolerance=1e-4)
        for name in POLYNOMIALS
    },
    "polygamma": Case("aten::polygamma", (2,), [(torch.tensor([0.5, 1.0, 7.5, 30.0]),)], tolerance=1e-5),
    "zeta": Case(
        "aten::special_zeta", (), [(torch.tensor([1.5, 2.0, 9.0]), torch.tensor([0.5, 3.0, 1.0]))], tolerance=1e-5
    ),
    **{
        name: Case(
            f"aten::{name}", (), [(torch.tensor([0.5, 2.0, 30.0]), torch.tensor([1.0, 0.0, 20.0]))], tolerance=1e-5
        )
        for name in ("igamma", "igammac")
    },
    **{
        name: Case(f"aten::{name}", (), [(torch.tensor([12, -18, 0, 7]), torch.tensor([18, 12, 5, 0]))])
        for name in ("gcd", "lcm")
    },
    "inv_ex": Case("aten::linalg_inv_ex", (), [(MATRIX,)], tolerance=1e-4),
    "solve_ex": Case("aten::_linalg_solve_ex", (), [(MATRIX, uniform(2, 3, 2))], tolerance=1e-4),
    "det": Case("aten::_linalg_det", (), [(MATRIX,)], tolerance=1e-4),
    "slogdet": Case("aten::_linalg_slogdet", (), [(MATRIX,)], tolerance=1e-4),
    "lu": Case("aten::linalg_lu", (), [(MATRIX,)], tolerance=1e-4),
    "lu_factor_ex": Case("aten::linalg_lu_factor_ex", (), [(MATRIX,)], tolerance=1e-4),
    "lu_solve": Case(
        "aten::linalg_lu_solve", (), [(*torch.linalg.lu_factor(MATRIX), uniform(2, 3, 2))], tolerance=1e-4
    ),
    "lu_unpack": Case("aten::lu_unpack", (), [torch.linalg.lu_factor(MATRIX)], tolerance=1e-4),
    "cholesky_ex": Case("aten::linalg_cholesky_ex", (), [(POSITIVE,)], tolerance=1e-4),
    "cholesky_inverse": Case("aten::cholesky_inverse", (), [(torch.linalg.cholesky(POSITIVE),)], tolerance=1e-4),
    "cholesky_solve": Case(
        "aten::cholesky_solve", (), [(uniform(2, 3, 2), torch.linalg.cholesky(POSITIVE))], tolerance=1e-4
    ),
    "solve_triangular": Case(
        "aten::linalg_solve_triangular", (), [(POSITIVE.tril(), uniform(2, 3, 2))], tolerance=1e-4
    ),
    "triangular_solve": Case("aten::triangular_solve", (), [(uniform(2, 3, 2), POSITIVE)], tolerance=1e-4),
    "qr": Case("aten::linalg_qr", (), [(uniform(2, 4, 3),)], tolerance=1e-4),
    "eigh": Case("aten::_linalg_eigh", (), [(POSITIVE,), (uniform(2, 3, 3),)], tolerance=1e-4),
    "eigh_upper": Case("aten::_linalg_eigh", ("U",), [(uniform(2, 3, 3),)], tolerance=1e-4),
    "eigh_25": Case("aten::_linalg_eigh", (), [(uniform(25, 25, kind=torch.float64),)], tolerance=1e-6),
    "eigh_dynamic": Case(
        "aten::_linalg_eigh", (), [(uniform(n, 6, 6, kind=torch.float64),) for n in (2, 0, 5)], ({0: "n"},), 1e-6
    ),
    **{
        f"svd_{rows}x{columns}": Case(
            "aten::_linalg_svd", (full,), [(uniform(rows, columns, kind=torch.float64),)], tolerance=1e-6
        )
        for rows, columns, full in (
            (5, 5, False),
            (7, 5, True),
            (6, 5, True),
            (5, 8, True),
            (25, 12, False),
            (0, 3, True),
        )
    },
    "geqrf": Case("aten::geqrf", (), [(uniform(2, 4, 3),)], tolerance=1e-4),
    **{
        f"ormqr_{left}_{transposed}": Case(
            "aten::ormqr",
            (left, transposed),
            [(*torch.geqrf(uniform(2, 4, 3)), uniform(2, 4, 4))],
            tolerance=1e-4,
        )
        for left in (True, False)
        for transposed in (True, False)
    },
    "matrix_exp": Case(
        "aten::linalg_matrix_exp", (), [(uniform(2, 4, 4).mul(scale),) for scale in (1, 5)], tolerance=1e-4
    ),
    "frexp": Case("aten::frexp", (), [(torch.tensor([-2.5, -0.0, 0.95, NAN, math.inf, 1e-40, 3e38]),)]),
    **{
        name: Case(
            f"aten::{name}",
            (),
            [(torch.tensor([[1.5], [-0.0], [NAN], [-math.inf]]), torch.tensor([1.0, -0.0, -NAN, -3.0, math.inf]))],
        )
        for name in ("copysign", "nextafter")
    },
    **{
        f"logcumsumexp_{dimension}": Case(
            "aten::logcumsumexp",
            (dimension,),
            [(uniform(count, 5, 3).mul(300),) for count in (4, 0, 9)],
            ({0: "n"},),
            tolerance=1e-5,
        )
        for dimension in (0, -1)
    },
    "logcumsumexp_infinite": Case(
        "aten::logcumsumexp", (0,), [(torch.tensor([-math.inf, -math.inf, 1.0, math.inf, math.inf, NAN, 1.0]),)]
    ),
    "max_pool3d_int": Case(
        "aten::max_pool3d_with_indices", ([2, 2, 2],), [(torch.arange(128).reshape(2, 4, 4, 4) - 99,)]
    ),
    "avg_pool3d_int": Case("aten::avg_pool3d", ([2, 2, 2],), [(torch.arange(128).reshape(2, 4, 4, 4) - 9,)]),
    "adaptive_max_pool2d_float64": Case(
        "aten::adaptive_max_pool2d", ([2, 3],), [(uniform(2, 4, 5, kind=torch.float64),)]
    ),
}

EXHAUSTIVE = pytest.mark.exhaustive
QUICK = frozenset(
    {
        "nms",
        "batched_nms",
        "bicubic_peaks_32",
        "multiscale_roi_align_2",
        "roi_align_plain_2",
        "roi_align_aligned_-1",
        "deform_conv2d",
        "sort_0_down",
        "sort_nan",
        "scatter_reduce_mean_0_without_self",
        "grid_sampler_2d_211",
        "grid_sampler_3d_000",
        "tril_indices_3x5_-1",
        "cummax_0",
        "searchsorted_right_rows",
        "avg_pool3d_2",
        "digamma_odd",
        "special_i1_odd",
        "inv_ex",
        "solve_ex",
        "nextafter",
        "eigh",
        "svd_6x5",
    }
)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Built]:
    """Return a function that lowers a case's operator to a program for [portable]."""
    detection_operators.register()

    def make(case: Case) -> Built:
        sizes = {name: torch.export.Dim(name, min=0, max=case.most) for each in case.dynamic for name in each.values()}
        shapes = tuple({axis: sizes[name] for axis, name in each.items()} for each in case.dynamic)
        module = Call(case.operator, *case.numbers)
        exported = torch.export.export(module, tuple(case.inputs[0]), dynamic_shapes=(shapes,) if sizes else None)
        return build_program(exported, tmp_path_factory.mktemp("kernel"))

    return make


@pytest.mark.parametrize("name", [each if each in QUICK else pytest.param(each, marks=EXHAUSTIVE) for each in CASES])
def test_a_kernel_computes_the_values_of_eager_mode(
    name: str, build: Callable[[Case], Built], modelbuild_run: Run, tmp_path: Path
) -> None:
    case = CASES[name]
    program = build(case).pte
    for inputs in case.inputs:
        expected = Call(case.operator, *case.numbers)(*inputs)
        compare(run(modelbuild_run, program, inputs, tmp_path), expected, case.tolerance)


def test_the_library_has_the_operators_that_lowering_counts_on(repository: Path, native: Path) -> None:
    described = json.loads((native / "lib/modelbuild_kernels.kernels.json").read_text())
    assert set(described["operators"]) == builtin.OPERATORS
    recurrent = {f"modelbuild::{name}" for name in ("lstm", "gru", "rnn")}  # test_native_recurrent_kernels.py
    cases = {case.operator for case in CASES.values()} - {"aten::grid_sampler_2d"}
    tested = recurrent.union(COUNTING, cases, {"modelbuild::grid_sampler_2d"})
    assert tested == {name.partition(".")[0] for name in builtin.OPERATORS}
    assert frozenset(CASES) >= QUICK
    library = (native / "lib/libmodelbuild_kernels.so").read_bytes()
    assert [name for name in builtin.OPERATORS if name.encode() + b"\0" not in library] == []


def test_invalid_regions_end_the_run_with_a_message(
    build: Callable[[Case], Built], modelbuild_run: Run, tmp_path: Path
) -> None:
    case = CASES["roi_align_plain_2"]
    program = build(case).pte
    image, found = case.inputs[0]
    for place, value in ((0, 2.0), (0, -1.0), (3, float("inf")), (1, float("nan"))):
        wrong = found.clone()
        wrong[4, place] = value
        for number, each in enumerate((image, wrong)):
            np.save(tmp_path / f"in{number}.npy", each.numpy())
        done = modelbuild_run(program, *(f"--input=input{n}={tmp_path}/in{n}.npy" for n in range(2)))
        assert done.returncode == 1
        assert "rois: expected finite boxes and the numbers of images" in done.stderr


def test_sides_of_no_picture_end_the_run_with_a_message(
    build: Callable[[Case], Built], modelbuild_run: Run, tmp_path: Path
) -> None:
    case = CASES["bicubic_peaks_32"]
    program = build(case).pte
    for place, side in ((1, 0), (2, -5), (1, 1 << 40)):
        inputs = [each.clone() for each in case.inputs[0]]
        inputs[place][4] = side
        for number, each in enumerate(inputs):
            np.save(tmp_path / f"in{number}.npy", each.numpy())
        done = modelbuild_run(program, *(f"--input=input{n}={tmp_path}/in{n}.npy" for n in range(3)))
        assert done.returncode == 1
        assert f"{['heights', 'widths'][place - 1]}: expected an int64 from 1 to 32768" in done.stderr
