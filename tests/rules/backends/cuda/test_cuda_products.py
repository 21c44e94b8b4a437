"""Convolutions and matrix products are split where that is cheaper, and weights are stored as kernels read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.backends.cuda.steps.generate.lowerings.products import TILES, _tiles
from modelbuild_rules.backends.cuda.steps.generate.weights import arrange
from modelbuild_rules.backends.cuda.steps.kernels.cost import Product, cost
from modelbuild_rules.backends.cuda.steps.kernels.device import GPUS


@pytest.mark.parametrize(
    ("product", "split"),
    [
        (Product(49, 512, 512, taps=9), True),  # the last layers of a ResNet, of one image
        (Product(49, 512, 2048), True),
        (Product(50176, 64, 64, taps=9), False),
        (Product(4096, 4096, 64), False),
        (Product(49, 512, 16), False),  # nothing to split
    ],
)
def test_a_deep_product_of_few_tiles_is_split(product: Product, split: bool) -> None:
    parts, tiles = _tiles(product, GPUS[90])
    assert (parts > 1) is split
    costs = [cost(each, product, GPUS[90], parts) for each in tiles]
    assert costs == sorted(costs)
    assert costs[0] == min(cost(each, product, GPUS[90], n) for each in tiles for n in (1, parts))


def test_a_gpu_with_fewer_multiprocessors_splits_less() -> None:
    product = Product(196, 256, 256, taps=9)
    assert _tiles(product, GPUS[87])[0] < _tiles(product, GPUS[90])[0]


@pytest.mark.parametrize("capability", sorted(GPUS))
def test_each_gpu_has_tiles_for_each_product(capability: int) -> None:
    for product in (Product(1, 1, 1), Product(10, 3, 64, taps=9, bytes=2), Product(4096, 4096, 4096)):
        _, tiles = _tiles(product, GPUS[capability])
        assert tiles
        assert all(each.shared_memory(product) <= GPUS[capability].shared_memory for each in tiles)


def test_tiles_differ() -> None:
    assert len(set(TILES)) == len(TILES)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.plain, self.deep = nn.Conv2d(4, 6, 3), nn.Conv2d(6, 12, (3, 2), groups=6)
        self.line, self.back = nn.Conv1d(4, 2, 3), nn.ConvTranspose2d(4, 4, 2)
        self.shared = nn.Parameter(torch.randn(6, 4, 3, 3))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        other = torch.nn.functional.conv2d(x, self.shared) + self.shared.sum()
        return self.deep(self.plain(x)), self.line(x.flatten(2)), self.back(x), other


def strides(program: Any) -> dict[str, Sequence[int]]:
    return {name: tensor.stride() for name, tensor in program.state_dict.items()}


def test_weights_of_convolutions_are_stored_with_their_channels_adjacent() -> None:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(1, 4, 8, 8)
    program = torch.export.export(net, (x,)).run_decompositions({})
    expected, before = program.module()(x), strides(program)
    convolution = torch.ops.aten.convolution.default
    forms = (torch.ops.aten.conv2d.default, torch.ops.aten.conv1d.default, convolution)
    arrange(program, lambda node: node.target in forms)
    after = strides(program)
    changed = {name: after[name] for name in after if after[name] != before[name]}
    assert changed == {"plain.weight": (36, 1, 12, 4), "deep.weight": (1, 72, 24, 12), "line.weight": (12, 1, 4)}
    for node in program.graph.nodes:
        name = program.graph_signature.inputs_to_parameters.get(node.name)
        if name in changed:
            assert node.meta["val"].stride() == after[name]
    for one, other in zip(program.module()(x), expected, strict=True):
        torch.testing.assert_close(one, other)
