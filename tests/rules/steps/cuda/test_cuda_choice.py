"""Templates of matrix products are chosen by their cost, without timing."""

from __future__ import annotations

import pytest

from modelbuild_rules.steps._cuda_choice import cost, tile
from modelbuild_rules.steps._cuda_device import GPUS

H100 = GPUS[90]


def test_a_tile_is_read_in_both_forms() -> None:
    assert tile({"tile_shape": "(64, 16, 128)", "num_warps": 8, "num_stages": 3}) == (64, 128, 16, 8, 3)
    assert tile({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16}) == (32, 64, 16, 4, 1)


@pytest.mark.parametrize(("rows", "columns", "better", "worse"), [(16, 16, 16, 128), (8192, 8192, 128, 16)])
def test_tiles_are_as_large_as_the_result_can_use(rows: int, columns: int, better: int, worse: int) -> None:
    costs = [cost((size, size, 32, max(1, size * size // 512), 2), rows, columns, H100) for size in (better, worse)]
    assert costs[0] < costs[1]


def test_among_equals_more_stages_are_better() -> None:
    few, many = (cost((64, 64, 32, 4, stages), 512, 512, H100) for stages in (2, 4))
    assert many < few
