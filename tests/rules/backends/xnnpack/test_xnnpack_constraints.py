"""Nodes that XNNPACK can't compile are left to others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from executorch.extension.pybindings._C import _load_for_executorch
from torch import Tensor, nn

import modelbuild_runtime
from tests.rules.backends.xnnpack.comparison import Form, compared, numbers
from tests.rules.program.conftest import run_steps

FORMS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], dict[str, Tensor]]] = {
    "gelu": (lambda m, x: F.gelu(x, approximate="tanh"), (numbers(3, 7),), {}),
    "addmm": (
        lambda m, x: [
            torch.addmm(m.bias, x, m.weight, alpha=2.0, beta=0.5),
            *(torch.addmm(bias, x, m.weight) for bias in (m.bias, m.bias[None], m.bias[:1], m.bias[0], m.matrix)),
            torch.addmm(m.matrix[:, :1], x, m.weight),
        ],
        (numbers(3, 4),),
        {"bias": numbers(5), "weight": numbers(4, 5), "matrix": numbers(3, 5)},
    ),
    "linear": (
        lambda m, x: [
            F.linear(x, m.vector),
            *(F.linear(x, m.weight, bias) for bias in (m.bias, m.bias[:1], m.bias[0])),
        ],
        (numbers(3, 4),),
        {"vector": numbers(4), "weight": numbers(5, 4), "bias": numbers(5)},
    ),
    "average": (
        lambda m, x: [
            F.avg_pool2d(x, 2, divisor_override=3),
            F.avg_pool2d(x, 2, divisor_override=4),
            F.avg_pool2d(x, 3, 1, 1, count_include_pad=False, divisor_override=9),
        ],
        (numbers(1, 2, 8, 8),),
        {},
    ),
    "transposed": (
        lambda m, x: [
            F.conv_transpose2d(x, m.weight, stride=1, output_padding=1, dilation=2),
            F.conv_transpose2d(x, m.weight, stride=2, output_padding=1),
            F.conv_transpose1d(x[:, :, 0], m.weight[:, :, 0], stride=(1,), output_padding=1, dilation=2),
        ],
        (numbers(1, 4, 5, 5),),
        {"weight": numbers(4, 4, 3, 3)},
    ),
    "slice": (
        lambda m, x: [x[-100:3] + 1, x[1:100] + 1, x[-3:-1] + 1, torch.ops.aten.slice.Tensor(x, -1, -9, 3) + 1],
        (numbers(5, 4),),
        {},
    ),
    "scalars": (lambda m, x: [x.permute(()) + 1, x.softmax(-1) + 1, x.relu(), x**2], (torch.tensor(3.0),), {}),
    "bounds": (
        lambda m, x: [
            x.clamp(torch.nan, 1.0),
            x.clamp(-torch.inf, 1.0),
            torch.ops.aten.hardtanh(x),
            torch.ops.aten.hardtanh(x, -0.2),
            torch.ops.aten.hardtanh(F.linear(x, m.weight), -0.2),
        ],
        (numbers(3, 7),),
        {"weight": numbers(5, 7)},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_arguments_that_xnnpack_lacks(form: str, tmp_path: Path) -> None:
    function, inputs, parts = FORMS[form]
    made = compared(Form(function, **{name: nn.Parameter(part) for name, part in parts.items()}), [inputs], tmp_path)
    assert made.nodes("portable")


class Net(nn.Module):
    """A convolution and PReLU, and maxima: of signals, or of images."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        kind = nn.Conv1d if dimensions == 1 else nn.Conv2d
        self.layers = nn.Sequential(kind(3, 4, 3), nn.PReLU(), kind(4, 4, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        found = self.layers(x)
        return found.max(-1, keepdim=True).values + 1, found.max(-1).values, found.max(1, keepdim=True).values


@pytest.mark.parametrize(
    ("dimensions", "left"), [(1, {"aten.max.dim", "aten.where.self"}), (2, {"aten.max.dim"})], ids=["signals", "images"]
)
def test_others_get_what_xnnpack_can_t_compile(dimensions: int, left: set[str], tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = compared(Net(dimensions), [(numbers(1, 3, *[9] * dimensions),)], tmp_path)
    assert left <= made.nodes("portable").keys()
    assert "aten.prelu.default" in made.nodes("xnnpack") or dimensions == 1


def test_pictures_without_a_batch_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.PReLU(), nn.MaxPool2d(3, 1, 1), nn.AvgPool2d(2)).eval()
    x = torch.randn(3, 9, 9)
    made = run_steps(torch.export.export(module.requires_grad_(False), (x,)), tmp_path / "made")
    assert not {"aten.max_pool2d.default", "aten.avg_pool2d.default"} & made.nodes("xnnpack").keys()
    found = modelbuild_runtime.load(made.pte).run([x.numpy()])  # maxima are a kernel of modelbuild's
    torch.testing.assert_close(torch.from_numpy(found["output0"]), module(x))


class Copied(nn.Module):
    """A result of a partition, and a copy of it, that other kernels read; and a maximum with infinite padding."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        found = self.layer(x).sigmoid()
        copy = found.clone()
        padded = nn.functional.pad(found, (0, 1, 0, 1), value=-torch.inf)
        return found.cumsum(1), copy.cumsum(2), self.layer(copy + found), nn.functional.max_pool2d(padded, 3, 2)


def test_copies_and_infinite_padding_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Copied().eval().requires_grad_(False), torch.randn(1, 4, 8, 8)
    made = run_steps(torch.export.export(module, (x,)), tmp_path / "made")
    assert "finite" in made.nodes("portable")["aten.constant_pad_nd.default"]
    for found, wanted in zip(_load_for_executorch(str(made.pte)).forward([x]), module(x), strict=True):
        torch.testing.assert_close(found, wanted)


class Many(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * 2).reshape(1, 2, 1, 2, 1, 2, 2).permute(1, 0, 2, 3, 4, 6, 5) + x.reshape(2, 1, 1, 2, 1, 2, 2)


def test_tensors_of_more_dimensions_than_xnnpack_has_run(tmp_path: Path) -> None:
    x = torch.randn(4, 4)
    made = run_steps(torch.export.export(Many(), (x,)), tmp_path / "made")
    assert made.nodes("portable")["aten.add.Tensor"] == "XNNPACK's tensors have at most 6 dimensions"
    assert "aten.mul.Tensor" in made.nodes("xnnpack")
    torch.testing.assert_close(_load_for_executorch(str(made.pte)).forward([x])[0], Many()(x))
