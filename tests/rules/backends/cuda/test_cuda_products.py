"""Convolutions and matrix products are split where that is cheaper, and weights are stored as kernels read them."""

from __future__ import annotations

import pytest

from modelbuild_rules.backends.cuda.steps.generate.lowerings.products import TILES, _tiles
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


@pytest.mark.parametrize("columns", [3, 16, 20])
def test_a_product_of_few_columns_has_tiles_of_many_rows(columns: int) -> None:
    _, tiles = _tiles(Product(300_000, columns, 64, taps=9), GPUS[90])
    assert {each.columns for each in tiles} == {32}
    assert tiles[0].rows > 16


def test_tiles_differ() -> None:
    assert len(set(TILES)) == len(TILES)
