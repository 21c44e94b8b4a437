"""Batch normalizations are computed by the layer before them, or as products and sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.rules.backends.xnnpack.comparison import Form, compared, normalization, numbers


@pytest.mark.parametrize("groups", [1, pytest.param(2, marks=pytest.mark.exhaustive), 4])
@pytest.mark.parametrize("affine", [True, False])
def test_layers_before_a_normalization(affine: bool, groups: int, tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "conv": nn.Conv2d(4, 8, 3, groups=groups),
        "transposed": nn.ConvTranspose2d(8, 4, 3, groups=groups, bias=affine),
        "line": nn.ConvTranspose1d(4, 8, 3, groups=groups),
        "linear": nn.Linear(8, 6),
        "conv_norm": normalization(nn.BatchNorm2d, 8, affine),
        "transposed_norm": normalization(nn.BatchNorm2d, 4, affine),
        "line_norm": normalization(nn.BatchNorm1d, 8, affine),
        "linear_norm": normalization(nn.BatchNorm1d, 6, affine),
        # of the second dimension, which is not the one that the linear layer computes
        "rows_norm": normalization(nn.BatchNorm1d, 4, affine),
    }

    def forward(m: Any, x: torch.Tensor, line: torch.Tensor) -> Any:
        image = m.transposed_norm(m.transposed(m.conv_norm(m.conv(x)).relu()))
        found = m.line_norm(m.line(line))
        return image, found, m.linear_norm(m.linear(found[:, :, 0])), m.rows_norm(m.linear(line))

    made = compared(Form(forward, **parts), [(numbers(2, 4, 7, 7), numbers(2, 4, 8))], tmp_path)
    assert "aten._native_batch_norm_legit_no_training.default" not in made.nodes("portable")


def test_a_normalization_alone(tmp_path: Path) -> None:
    kinds = ((nn.BatchNorm1d, (5, 3)), (nn.BatchNorm1d, (2, 3, 7)), (nn.BatchNorm2d, (2, 3, 4, 5)))
    norms = {f"norm{place}": normalization(kind, 3) for place, (kind, _) in enumerate(kinds)}
    inputs = [numbers(*shape) for _, shape in kinds]
    for each in inputs:
        each.flatten()[3], each.flatten()[11] = torch.nan, torch.inf
    for dtype, tolerance in ((torch.float32, None), (torch.float16, 2e-2)):
        module = Form(lambda m, *given: [getattr(m, name)(x) for name, x in zip(norms, given, strict=True)], **norms)
        calls = [tuple(each.to(dtype) for each in inputs)]
        made = compared(module.to(dtype), calls, tmp_path / str(dtype), tolerance)
        assert "aten._native_batch_norm_legit_no_training.default" in made.nodes("xnnpack")
