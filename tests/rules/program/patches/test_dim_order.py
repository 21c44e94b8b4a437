"""Tensors whose inner sizes depend on values are lowered, and run with eager mode's results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from executorch.extension.pybindings._C import _load_for_executorch
from torch import Tensor, nn
from torch.export import Dim

from tests.portable_program import build_program


class Net(nn.Module):
    """Computes a function of the vector of positive elements, whose length depends on values."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x[x > 0])


FUNCTIONS = {
    "stack": lambda v: torch.stack([v, v * 2]),
    "stack of one": lambda v: torch.stack([v]),
    "stack of columns": lambda v: torch.stack([v, v * 2, v + 1], -1),
    "stack of matrices": lambda v: torch.stack([torch.stack([v, v * 2]), torch.stack([v, v + 1])], 1),
    "row": lambda v: v[None] + torch.ones(3, 1),
    "outer product": lambda v: v[:, None] * v[None],
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.exhaustive] * (n != "stack")) for n in FUNCTIONS])
def test_a_tensor_of_unknown_inner_size_has_eager_modes_values(name: str, tmp_path: Path) -> None:
    x = torch.tensor([1.0, -2, 3, 4, -5])
    net = Net(FUNCTIONS[name])
    exported = torch.export.export(net, (x,), dynamic_shapes={"x": {0: Dim("n", max=100)}}, strict=False)
    method = _load_for_executorch(str(build_program(exported, tmp_path).pte))
    for given in (x, -x, -x.abs(), x[:1], torch.rand(70)):
        (made,) = method.forward([given])
        assert torch.equal(made, net(given))


class Filled(nn.Module):
    """Writes to an empty tensor with a dynamic size."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.new_empty(x.shape[0], 8)
        y[:, :6], y[:, 6:] = x, x[:, :2]
        return y, nn.functional.pad(x[:, None], (1, 0), mode="circular")


class Cut(nn.Module):
    """Pads with negative sizes."""

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (nn.functional.pad(x * 2, (-1, -1)) * 2,)


class Sums(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sum(1), x.cumsum(1)


@pytest.mark.parametrize("net", [Sums(), nn.Sequential(Filled())], ids=["sums", "empty"])
def test_a_dynamic_size_of_two_values_stays_dynamic(net: nn.Module, tmp_path: Path) -> None:
    sizes = ({0: Dim("n", min=1, max=2)},)
    exported = torch.export.export(net, (torch.randn(2, 6),), dynamic_shapes=sizes)
    method = _load_for_executorch(str(build_program(exported, tmp_path).pte))
    for count in (1, 2):
        given = torch.randn(count, 6)
        torch.testing.assert_close(list(method.forward([given])), list(net(given)))


@pytest.mark.parametrize("net", [Filled(), Cut()], ids=["empty", "cut"])
def test_a_dynamic_size_stays_dynamic(net: nn.Module, tmp_path: Path) -> None:
    sizes = {"x": {0: Dim("n", min=1, max=6)}}
    exported = torch.export.export(net, (torch.randn(3, 6),), dynamic_shapes=sizes)
    method = _load_for_executorch(str(build_program(exported, tmp_path).pte))
    for count in (1, 3, 6):
        given = torch.randn(count, 6)
        assert all(map(torch.equal, method.forward([given]), net(given)))
