"""Templates of matrix products are chosen by timing, by a tuning file, or by their cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.kernels.choice import Chooser
from modelbuild_rules.backends.cuda.steps.kernels.cost import Product, Tile, cost, fits, tile
from modelbuild_rules.backends.cuda.steps.kernels.device import GPUS
from modelbuild_rules.backends.cuda.steps.kernels.tuning import Entry, Tuning, identity

H100 = GPUS[90]
WHAT = {"op": "mm", "inputs": ["float32 [8, 8] by [8, 1]"], "output": "float32 [8, 8] by [8, 1]", "options": {}}
CHOSEN = [{"template": "mm", "BLOCK_M": size} for size in (16, 32, 64)]


def test_a_tile_is_read_in_both_forms() -> None:
    assert tile({"tile_shape": "(64, 16, 128)", "num_warps": 8, "num_stages": 3}) == Tile(64, 128, 16, 8, 3)
    assert tile({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16}) == Tile(32, 64, 16, 4, 1)


@pytest.mark.parametrize(("rows", "columns", "better", "worse"), [(16, 16, 16, 128), (8192, 8192, 128, 16)])
def test_tiles_are_as_large_as_the_result_can_use(rows: int, columns: int, better: int, worse: int) -> None:
    product = Product(rows, columns, 512)
    costs = [cost(Tile(size, size, 32, max(1, size * size // 1024), 2), product, H100) for size in (better, worse)]
    assert costs[0] < costs[1]


def test_steps_that_wait_for_memory_are_worse_than_stages() -> None:
    product = Product(512, 512, 1024)
    few, many = (cost(Tile(64, 64, 16, 4, stages), product, H100) for stages in (1, 4))
    assert many < 0.6 * few


def test_a_few_deep_steps_are_better_than_many() -> None:
    product = Product(49, 512, 512, taps=9)
    flat, deep = (cost(Tile(16, 32, depth, 4, 3), product, H100) for depth in (16, 64))
    assert deep < 0.75 * flat


def test_small_results_are_shared_out_to_many_multiprocessors() -> None:
    product = Product(49, 512, 512, taps=9)
    large, small = (cost(Tile(size, size, 64, 4, 3), product, H100) for size in (64, 32))
    assert small < large


def test_less_precision_is_faster() -> None:
    plain = Product(4096, 4096, 4096)
    costs = [cost(Tile(128, 128, 64, 8, 3), each, H100) for each in (plain, replace(plain, tf32=True))]
    costs.append(cost(Tile(128, 128, 64, 8, 3), replace(plain, bytes=2), H100))
    assert costs[0] > 2 * costs[1] > 2 * costs[2]


def test_the_depth_of_a_small_result_is_split() -> None:
    small, large = Product(49, 512, 512, taps=9), Product(4096, 512, 512)
    best = {
        product: min((1, 2, 4, 8), key=lambda n: cost(Tile(64, 64, 64, 4, 3), product, H100, n))
        for product in (small, large)
    }
    assert (best[small] > 1, best[large]) == (True, 1)


def test_a_tile_has_a_step_for_each_tap_or_takes_taps_together() -> None:
    assert Tile(64, 64, 32, 4, 3).steps(Product(100, 64, 64, taps=9)) == 18
    assert Tile(64, 64, 32, 4, 3).steps(Product(100, 64, 3, taps=49)) == 5


def test_a_tile_fits_shared_memory_and_is_not_much_larger_than_the_product() -> None:
    assert fits(Tile(128, 128, 64, 8, 3), Product(512, 512, 512), H100)
    assert not fits(Tile(128, 128, 64, 8, 3), Product(512, 512, 512), GPUS[86])
    assert not fits(Tile(16, 128, 32, 4, 4), Product(512, 64, 512), H100)


class Watch:
    """Returns predefined times of calls."""

    def __init__(self, times: dict[int, float]) -> None:
        self.given: list[Sequence[Any]] = []
        self._times = times

    def times(self, calls: Sequence[Any]) -> dict[int, float]:
        self.given.append(calls)
        return self._times


def chosen(tuning: Tuning, watch: Watch | None = None, usual: int = 0) -> int:
    chooser = Chooser(H100, tuning, watch)  # type: ignore[arg-type]
    return chooser._chosen(WHAT, CHOSEN, lambda: usual, lambda: [None, None, None])


@pytest.mark.parametrize(
    ("times", "taken"),
    [
        ({0: 3.0, 1: 2.0, 2: 1.0}, 2),
        ({1: 2.0, 2: 4.0}, 1),
        ({0: 2.01, 1: 2.0, 2: 3.0}, 0),  # indistinguishable from the fastest
    ],
)
def test_the_fastest_is_taken_and_told(times: dict[int, float], taken: int) -> None:
    tuning = Tuning()
    assert chosen(tuning, Watch(times)) == taken
    (entry,) = tuning.made.values()
    assert (entry["chosen"], entry["microseconds"], entry.get("by_cost")) == (CHOSEN[taken], times[taken], times.get(0))
    assert tuning.by_cost == tuning.tuned == []


def test_the_same_choice_is_timed_once() -> None:
    tuning, watch = Tuning(), Watch({0: 2.0, 1: 1.0})
    assert [chosen(tuning, watch), chosen(tuning, watch)] == [1, 1]
    assert len(watch.given) == 1


def test_what_cannot_be_timed_is_chosen_by_cost() -> None:
    tuning = Tuning()
    assert chosen(tuning, Watch({}), usual=2) == 2
    assert (tuning.made, tuning.by_cost) == ({}, [identity(WHAT)])


def test_a_tuning_file_decides_what_it_names() -> None:
    tuning = Tuning({identity(WHAT): Entry(CHOSEN[1], "a.json:7")})
    assert chosen(tuning) == 1
    assert (tuning.tuned, tuning.by_cost) == ([identity(WHAT)], [])
    other = Tuning({identity({**WHAT, "options": {"GROUP_M": 8}}): Entry(CHOSEN[1], "a.json:7")})
    assert chosen(other, usual=2) == 2
    assert json.loads(other.by_cost[0])["op"] == "mm"


def test_a_template_that_is_not_there_is_told_with_its_place() -> None:
    tuning = Tuning({identity(WHAT): Entry({"template": "mm", "BLOCK_M": 99}, "a.json:7")})
    with pytest.raises(StepError, match=r"a\.json:7: none of the 3 candidates for mm float32 .* is .*99"):
        chosen(tuning)
