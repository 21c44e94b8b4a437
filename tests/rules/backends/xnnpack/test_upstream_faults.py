"""ExecuTorch still has the faults that programs for XNNPACK avoid. A fault that it mended can be dropped here, in the
code and in docs/reference/xnnpack.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from modelbuild_rules.backends.xnnpack.steps import compile, partitioning
from tests.rules.backends.xnnpack.comparison import Form, compared, normalization, numbers
from tests.rules.backends.xnnpack.test_layouts import DYNAMIC, STATIC, quantized

IMAGE = numbers(1, 4, 8, 8)
MISSING = numbers(1, 4, 8, 8)
MISSING[0, 1, 3, 3] = torch.nan


@contextmanager
def unmended() -> Iterator[None]:
    """Take what ExecuTorch takes, and compile it as ExecuTorch does, while the context lasts."""
    rewrites = "unshare_values", "without_norms", "with_nonfinite_numbers"
    with (
        patch.multiple(compile, **dict.fromkeys(rewrites, lambda program: None)),
        patch.object(compile, "layouts_apart", _nothing),
        patch.multiple(partitioning, _CONSTRAINTS={}, _LOSSY={}),
    ):
        yield


@contextmanager
def _nothing() -> Iterator[None]:
    yield


FAULTS: dict[str, tuple[Callable[..., Any], Tensor]] = {
    "a constant with two readers": (lambda m, x: (m.norm(m.conv(x)), m.other(m.conv(x))), IMAGE),
    "norm behind a transposed convolution": (lambda m, x: m.norm(m.groups(x)), IMAGE),
    "norm alone": (lambda m, x: m.norm(x), MISSING),
    "maximum of a window": (lambda m, x: F.max_pool2d(x, 2), MISSING),
    "average of a window": (lambda m, x: F.avg_pool2d(x, 2), MISSING),
    "softmax behind a convolution": (lambda m, x: m.conv(x).softmax(-1), IMAGE),
    "maximum": (lambda m, x: torch.maximum(x, x.flip(3)), MISSING),
    "depthwise convolution": (lambda m, x: m.depthwise(x), MISSING),
    "infinity": (lambda m, x: F.interpolate(x / 0, scale_factor=2, mode="bilinear"), IMAGE),
    "gelu": (lambda m, x: F.gelu(x, approximate="tanh"), IMAGE),
    "addmm": (lambda m, x: torch.addmm(m.vector, x, m.matrix, beta=0.5), numbers(3, 8)),
    "vector": (lambda m, x: F.linear(x, m.vector), numbers(4, 3)),
    "output_padding": (lambda m, x: F.conv_transpose2d(x, m.conv.weight, output_padding=1, dilation=2), IMAGE),
    "slice": (lambda m, x: x[-100:3] + 1, numbers(5, 4)),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", [*FAULTS, "dynamic linear", "dynamic shared_by_convolutions", "static where_tanh"])
def test_a_fault_is_there(fault: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    given: Any
    if fault in FAULTS:
        function, x = FAULTS[fault]
        parts: dict[str, Any] = {
            "conv": nn.Conv2d(4, 4, 3, padding=1),
            "groups": nn.ConvTranspose2d(4, 4, 3, groups=2),
            "depthwise": nn.Conv2d(4, 4, (1, 2), groups=4),
            "norm": normalization(nn.BatchNorm2d, 4),
            "other": normalization(nn.BatchNorm2d, 4),
            "matrix": nn.Parameter(numbers(8, 3)),
            "vector": nn.Parameter(numbers(3)),
        }
        given, inputs = Form(function, **parts), (x,)
    else:
        mode, form = fault.split()
        given, inputs = quantized({**DYNAMIC, **STATIC}[form], mode == "dynamic")
    with unmended(), pytest.raises(Exception):  # noqa: B017, PT011  a difference, or an error while compiling or running
        compared(given, [inputs], tmp_path, 0.1 if fault not in FAULTS else None)
