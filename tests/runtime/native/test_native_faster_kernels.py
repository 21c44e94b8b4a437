"""The runtime's own kernels of operators for which ExecuTorch has slower kernels, against eager mode."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.portable_program import build_program
from tests.runtime.native.kernel_results import NAN, Run, compare, run, uniform


class Resized(nn.Module):
    """Resizes pictures of 14 x 7 to larger, smaller and equal sizes, by sizes and by factors."""

    sizes = ((33, 28), (5, 3), (9, 7), (14, 11), (14, 7), (1, 1), (90, 401))
    factors = (1.7, (0.4, 1.3))

    def forward(self, x: Tensor) -> list[Tensor]:
        aligned = [
            functional.interpolate(x, size, mode="bilinear", align_corners=True)
            for size in ((20, 15), (1, 20), (14, 9))
        ]
        by_sizes = [functional.interpolate(x, size, mode="bilinear") for size in self.sizes]
        by_factors = [functional.interpolate(x, scale_factor=factor, mode="bilinear") for factor in self.factors]
        return [*aligned, *by_sizes, *by_factors]


class Normalized(nn.Module):
    """Normalizes rows, and pairs and blocks of rows, with weights and without. Some sizes are no multiples of 8."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(
            [nn.LayerNorm(19), nn.LayerNorm(19, bias=False), nn.LayerNorm(24), nn.LayerNorm((6, 19))]
        )
        for each in self.norms.parameters():
            nn.init.uniform_(each, -1, 1)

    def forward(self, x: Tensor) -> list[Tensor]:
        matrix, wide = x.flatten(0, 1), torch.cat([x, x[..., :5]], -1)
        named = [
            self.norms[0](x),
            self.norms[1](x),
            self.norms[0](matrix),
            self.norms[0](x[:, None]),
            self.norms[2](wide),
            self.norms[3](x),
        ]
        plain = [
            functional.layer_norm(each, shape, eps=0.25) for each, shape in ((x, (19,)), (x, (6, 19)), (matrix, (19,)))
        ]
        return [*named, *plain, functional.layer_norm(x[:, None], (6, 19))]


def odd(x: Tensor) -> Tensor:
    """Put NaN and infinities into some rows."""
    rows = x.view(-1, x.shape[-1])
    rows[3, 2], rows[7, -1], rows[12, 0] = NAN, math.inf, -math.inf
    return x


CASES = {
    "upsample_bilinear2d": (
        Resized(),
        [odd(uniform(2, 3, 14, 7)), uniform(5, 3, 14, 7, seed=1), uniform(0, 3, 14, 7)],
        2e-6,
    ),
    # Differences to a great mean are exact, but the difference of mean squares is not.
    "native_layer_norm": (
        Normalized(),
        [uniform(2, 6, 19), odd(uniform(40, 6, 19, seed=1)), 30 + uniform(3, 6, 19), uniform(0, 6, 19)],
        2e-5,
    ),
}


@pytest.mark.parametrize("operator", CASES)
def test_a_kernel_computes_the_values_of_eager_mode(operator: str, modelbuild_run: Run, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, calls, tolerance = CASES[operator]
    module.eval().requires_grad_(False)
    (tmp_path / "built").mkdir()
    batch = ({0: torch.export.Dim("batch", min=0, max=64)},)
    program = build_program(torch.export.export(module, (calls[0],), dynamic_shapes=batch), tmp_path / "built").pte
    for x in calls:
        compare(run(modelbuild_run, program, [x], tmp_path), module(x), tolerance)
    # ExecuTorch's kernels report their names.
    profile = tmp_path / "profile.json"
    run(modelbuild_run, program, [calls[0]], tmp_path, f"--profile={profile}", "--repeat=1")
    names = [event["name"] for event in json.loads(profile.read_text())["runs"][0]]
    assert names.count("OPERATOR_CALL") >= len(module(calls[0]))
    assert not [name for name in names if operator in name]


class Alone(nn.Module):
    """Computes with one operator only."""

    def __init__(self, operator: str) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: Tensor) -> Tensor:
        if self.operator == "upsample_bilinear2d":
            return functional.interpolate(x, (9, 7), mode="bilinear")
        return functional.layer_norm(x, x.shape[-1:])


@pytest.mark.parametrize("operator", CASES)
@pytest.mark.parametrize("kind", [torch.float16, torch.float64])
def test_the_only_operator_of_a_program_may_have_another_type(
    operator: str, kind: torch.dtype, modelbuild_run: Run, tmp_path: Path
) -> None:
    module, x = Alone(operator), uniform(2, 3, 14, 8).to(kind)
    (tmp_path / "built").mkdir()
    program = build_program(torch.export.export(module, (x,)), tmp_path / "built").pte
    compare(run(modelbuild_run, program, [x], tmp_path), module(x), 2e-3)
