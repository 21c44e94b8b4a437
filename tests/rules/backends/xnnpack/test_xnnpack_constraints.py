"""Nodes that XNNPACK can't compile are left to others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.extension.pybindings.portable_lib import _load_for_executorch
from torch import Tensor, nn

from tests.rules.program.conftest import run_steps


class Net(nn.Module):
    """A convolution, PReLU, and maxima of lines, with the dimension and without: of signals, or of images."""

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
    module = Net(dimensions).eval().requires_grad_(False)
    x = torch.randn(1, 3, *[9] * dimensions)
    made = run_steps(torch.export.export(module, (x,)), tmp_path / "made")
    assert left <= made.nodes("portable").keys() | made.nodes("xnnpack").keys()
    maxima = [node for node in made.delegation["nodes"] if node["op"] == "aten.max.dim"]
    assert sum(node["backend"] == "xnnpack" for node in maxima) == dimensions - 1
    assert "aten.prelu.default" in made.nodes("xnnpack") or dimensions == 1
    for found, wanted in zip(_load_for_executorch(str(made.pte)).forward([x]), module(x), strict=True):
        torch.testing.assert_close(found, wanted)


def test_pictures_without_a_batch_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.PReLU(), nn.MaxPool2d(3, 1, 1), nn.AvgPool2d(2)).eval()
    x = torch.randn(3, 9, 9)
    made = run_steps(torch.export.export(module.requires_grad_(False), (x,)), tmp_path / "made")
    assert not {"aten.max_pool2d.default", "aten.avg_pool2d.default"} & made.nodes("xnnpack").keys()
    torch.testing.assert_close(_load_for_executorch(str(made.pte)).forward([x])[0], module(x))


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


class Normalized(nn.Module):
    """Batch normalizations without weights, of one size and of another: executorch gives them one name."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.BatchNorm2d(4, affine=False), nn.BatchNorm2d(4, affine=False)
        self.third = nn.BatchNorm1d(6, affine=False)
        self.layer = nn.Conv2d(4, 6, 8)
        for norm in (self.first, self.second, self.third):
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        found = self.layer(self.second(self.first(x).relu()).relu()).relu()
        return self.third(found.flatten(1))


def test_batch_normalizations_without_weights_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Normalized().eval().requires_grad_(False), torch.randn(2, 4, 8, 8)
    made = run_steps(torch.export.export(module, (x,)), tmp_path / "made")
    assert not made.nodes("portable")
    torch.testing.assert_close(_load_for_executorch(str(made.pte)).forward([x])[0], module(x))


class Many(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * 2).reshape(1, 2, 1, 2, 1, 2, 2).permute(1, 0, 2, 3, 4, 6, 5) + x.reshape(2, 1, 1, 2, 1, 2, 2)


def test_tensors_of_more_dimensions_than_xnnpack_has_run(tmp_path: Path) -> None:
    x = torch.randn(4, 4)
    made = run_steps(torch.export.export(Many(), (x,)), tmp_path / "made")
    assert made.nodes("portable")["aten.add.Tensor"] == "XNNPACK's tensors have at most 6 dimensions"
    assert "aten.mul.Tensor" in made.nodes("xnnpack")
    torch.testing.assert_close(_load_for_executorch(str(made.pte)).forward([x])[0], Many()(x))
