"""ExecuTorch's portable kernels still have the faults that programs avoid. A fault that it mended can be dropped here,
in the code and in docs/reference/portable.md."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

X = torch.tensor([[1.5, -2.5, torch.nan], [0.0, 4.0, -1.0]])
WHOLE = torch.tensor([7, -7, 3])
GREAT = torch.tensor([2**53 + 1, -7, 2**60 + 3])
IMAGE = torch.randn(1, 1, 6, 6, generator=torch.Generator().manual_seed(0))


def two_conds(x: Tensor) -> Tensor:
    one = torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))
    other = torch.cond(x.sum() > 5, lambda v: v * 3, lambda v: v - 2, (x,))
    return one + other


def gradients(grad: Tensor, x: Tensor) -> Tensor:
    indices = F.max_pool2d(x, 2, return_indices=True)[1]
    return torch.ops.aten.max_pool2d_with_indices_backward(grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices)


def product(z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return a sum, and a product of depth 0, whose memory had other values before."""
    total = (z.exp() * 2).sum()
    return torch.mm(x, y) + total


FAULTS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "remainder": (lambda x: x % -4, (WHOLE,)),
    "quotient": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (X, torch.zeros(3))),
    "padding": (lambda x: F.pad(x, (-1, 0)), (X,)),
    "sign": (torch.sign, (X,)),
    "power": (lambda x: x**-0.5, (torch.tensor([-torch.inf, -0.0, 4.0]),)),
    "whole_power": (lambda x: x**3, (torch.tensor([2**20 + 1, -70000]),)),
    "truncation": (lambda x: torch.div(x, 7, rounding_mode="trunc"), (GREAT,)),
    "rounding": (torch.floor, (GREAT,)),
    "number": (lambda x: (x + 0.1) - x, (torch.zeros(2, dtype=torch.float64),)),
    "divisor": (lambda x: x % 0.7, (torch.tensor([300.0, 444.0]).half(),)),
    "sum": (lambda x: x.sum(0), (GREAT,)),
    "short_sum": (F.linear, (torch.ones(1, 4096).half(), torch.ones(2, 4096).half(), torch.zeros(2).half())),
    "variance": (lambda x: x.var(0), ((100 + IMAGE.flatten()).bfloat16(),)),
    "group_norm": (lambda x: F.group_norm(x, 1), (1000 + IMAGE,)),
    "layer_norm": (lambda x: F.layer_norm(x, (6,)), (1e5 + IMAGE.double(),)),
    "log_softmax": (lambda x: torch.log_softmax(x, 0, dtype=torch.float64), (X[1:],)),
    "conversion": (lambda x: x.to(torch.float64, non_blocking=True), (X,)),
    "product": (product, (torch.ones(2, 3), torch.zeros(2, 0), torch.zeros(0, 3))),
    "cumsum": (lambda x: x.cumsum(0), (torch.tensor(2.0),)),
    "gather": (lambda x, i: torch.gather(x, 0, i), (X, torch.zeros(1, 3, dtype=torch.int32))),
    "max_pool": (lambda x: F.max_pool2d(x[None], (1, 3)), (X,)),
    "gradients": (gradients, (torch.ones(1, 1, 3, 3), IMAGE)),
    "conditions": (two_conds, (torch.ones(4),)),
    "narrow_copy": (lambda x: torch.narrow_copy(x, -1, 0, 2), (X,)),
    "grid_sample": (
        lambda x, grid: F.grid_sample(x, grid, align_corners=False),
        (IMAGE, torch.full((1, 1, 1, 2), torch.nan)),
    ),
    "antialias": (
        lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
        (IMAGE.repeat(2, 1, 1, 1),),
    ),
}
ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs/reference/portable.md"


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def computed(fault: str) -> str:
    """Lower a function as ExecuTorch does, and run it twice; return "right", or what is wrong."""
    from executorch.exir import to_edge
    from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

    function, inputs = FAULTS[fault]
    rows = torch.export.Dim("rows", min=1, max=4)
    dynamic = ({0: rows},) if fault == "antialias" else None
    exported = torch.export.export(Call(function), inputs, dynamic_shapes=(dynamic,) if dynamic else None)
    try:
        program = _load_for_executorch_from_buffer(to_edge(exported).to_executorch().buffer)
        calls = [inputs, inputs if dynamic is None else (inputs[0].repeat(2, 1, 1, 1),)]
        for call in calls:
            (made,), wanted = program.forward(call), function(*call)
            close = 1e-5 if wanted.dtype.itemsize < 8 else 1e-10 * wanted.dtype.is_floating_point
            if made.shape != wanted.shape or not torch.allclose(made, wanted, rtol=close, atol=close, equal_nan=True):
                return "other values"
    except Exception as problem:  # of executorch's, of many kinds
        return f"fails: {problem}"
    return "right"


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_there(fault: str) -> None:
    """In a process of its own, which the kernels may end."""
    code = f"from {__name__} import computed; print('found:', computed({fault!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "found: right" not in done.stdout
    assert "found: " in done.stdout or done.returncode < 0, done.stderr[-2000:]


def test_each_fault_is_on_the_page() -> None:
    section = PAGE.read_text().split("\n## ")[1]
    assert re.findall(r"^\| `(\w+)` ", section, re.MULTILINE) == [*FAULTS]
