"""Templates of matrix products are chosen by a tuning file, or by their cost."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor.virtualized import V

from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.kernels import choice
from modelbuild_rules.backends.cuda.steps.kernels.candidates import Call, Candidates, merge
from modelbuild_rules.backends.cuda.steps.kernels.choice import Chooser
from modelbuild_rules.backends.cuda.steps.kernels.compiler import compile_kernel, triton_compiler
from modelbuild_rules.backends.cuda.steps.kernels.cost import Product, Tile, cost, fits, spills, tile
from modelbuild_rules.backends.cuda.steps.kernels.device import GPUS
from modelbuild_rules.backends.cuda.steps.kernels.request import Request
from modelbuild_rules.backends.cuda.steps.kernels.timing import Launch, TimingError, identity
from modelbuild_rules.backends.cuda.steps.kernels.tuning import Entry, Tuning

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
    product = Product(512, 512, 1024, bytes=2)
    few, many = (cost(Tile(64, 64, 16, 4, stages), product, H100) for stages in (1, 4))
    assert many < 0.6 * few


def test_tiles_with_few_rows_for_each_warp_are_worse() -> None:
    product = Product(12000, 384, 384)
    two_groups, one_group = (cost(Tile(64, 128, 32, warps, 3), product, H100) for warps in (8, 4))
    assert one_group < 0.8 * two_groups


def test_a_last_round_of_few_blocks_takes_less_than_a_whole_one() -> None:
    tile, most = Tile(128, 128, 64, 8, 3), 2
    costs = [
        cost(tile, Product(128 * H100.processors * blocks, 128, 512, bytes=2), H100) for blocks in (most, most + 1)
    ]
    assert costs[1] < 1.7 * costs[0]


def test_a_tile_that_exceeds_the_shared_memory_has_no_pipeline() -> None:
    product = Product(1024, 768, 3072, bytes=2)
    fitting, larger = (cost(Tile(128, 128, depth, 8, 4), product, H100) for depth in (64, 128))
    assert larger > fitting


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


def test_the_cheapest_template_that_spills_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(64, 64, 32, 4, 4), (32, 32, 128, 4, 2), (32, 32, 32, 4, 4)]
    templates = [
        SimpleNamespace(
            name=f"triton_mm_{n}",
            log_info={"tile_shape": f"({rows}, {depth}, {columns})", "num_warps": warps, "num_stages": stages},
        )
        for n, (rows, columns, depth, warps, stages) in enumerate(sizes)
    ]
    product = Product(197, 192, 192)
    monkeypatch.setattr(choice, "_product", lambda template: (product, 1))
    costs = [cost(Tile(*each), product, H100) for each in sizes]
    assert min(costs) == costs[1]
    assert Chooser(H100, Tuning())._by_cost(templates) == (2, [2, 0, 1])
    costs = [cost(Tile(*each), half := replace(product, bytes=2), H100) for each in sizes]
    monkeypatch.setattr(choice, "_product", lambda template: (half, 1))
    assert Chooser(H100, Tuning())._by_cost(templates)[1] == sorted(range(3), key=costs.__getitem__)


MATRICES = """
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PART: tl.constexpr):
    rows, columns, part = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, PART)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for at in range(0, depth, PART):
        left = tl.load(a + rows[:, None] * depth + at + part[None, :])
        right = tl.load(b + columns[None, :] * depth + (at + part)[:, None])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * COLUMNS + columns[None, :], total)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "sizes"),
    [
        (86, (64, 64, 32, 4, 4)),
        (86, (64, 64, 64, 4, 3)),
        (90, (64, 64, 32, 4, 4)),
        (90, (64, 128, 64, 4, 3)),
        (90, (32, 32, 64, 4, 4)),
        (90, (32, 32, 128, 4, 2)),
        (100, (64, 128, 32, 4, 4)),
        (120, (128, 64, 64, 8, 3)),
        (120, (128, 64, 32, 8, 4)),
    ],
)
def test_tiles_that_spill_are_those_for_which_the_compiler_spills(
    capability: int, sizes: tuple[int, int, int, int, int], tmp_path: Path
) -> None:
    signature = {**dict.fromkeys("abc", "*fp32"), "depth": "i32", "ROWS": "constexpr"}
    signature |= {"COLUMNS": "constexpr", "PART": "constexpr"}
    known = [[[place], [["tt.divisibility", 16]]] for place in range(4)]
    constants = [[[4 + n], size] for n, size in enumerate(sizes[:3])]
    options = {"num_warps": sizes[3], "num_stages": sizes[4]}
    request = Request("product", MATRICES, signature, constants, known, options, capability, "tf32x3")
    with triton_compiler(GPUS[capability], "tf32x3", tmp_path):
        usage = compile_kernel(request, tmp_path).usage
    assert (usage.spilled > 50) == spills(Tile(*sizes), Product(512, 512, 512), GPUS[capability])


def launcher(warps: int, **sizes: int) -> Any:
    return SimpleNamespace(config=SimpleNamespace(kwargs=sizes, num_warps=warps, num_stages=1))


@pytest.mark.parametrize(
    ("loads", "launchers", "chosen"),
    [
        (19, [launcher(4, XBLOCK=1024), launcher(8, XBLOCK=512)], 0),
        (99, [launcher(4, XBLOCK=1024), launcher(8, XBLOCK=512)], 1),  # 792 values, and 198
        (99, [launcher(4, XBLOCK=32, YBLOCK=32), launcher(8, XBLOCK=64, YBLOCK=64), launcher(4, XBLOCK=256)], 2),
        (400, [launcher(4, XBLOCK=1024), launcher(8, XBLOCK=512), launcher(4, XBLOCK=512)], 1),  # none has few
        (400, [launcher(4, BLOCK_M=64), launcher(4, BLOCK_M=32)], 0),  # of a model's own kernel
    ],
)
def test_a_thread_loads_few_values(loads: int, launchers: list[Any], chosen: int) -> None:
    kernel = SimpleNamespace(
        launchers=launchers,
        fn=SimpleNamespace(src="x = tl.load(a)\n" * loads, __name__="triton_poi_fused_0"),
        heuristic_type=SimpleNamespace(name="POINTWISE"),
        triton_meta={"signature": {"in_ptr0": "*fp32", "XBLOCK": "constexpr"}},
    )
    tuning = Tuning()
    assert Chooser(H100, tuning).configuration(kernel, None) is launchers[chosen]
    assert len(tuning.by_cost) == 1


@pytest.mark.parametrize("split", [1, 8])
@pytest.mark.parametrize("taps", [[3, 3], [1, 1]])
def test_the_parts_of_a_split_depth_are_no_rows(split: int, taps: list[int]) -> None:
    """Of a convolution, and of a product that has the form of one: 49 positions, 256 channels to 512."""

    def tensor(*sizes: int) -> Any:
        return SimpleNamespace(size=sizes, get_dtype=lambda: torch.float16)

    output = (49, 512) if split == 1 else (split, 49, 512)
    template = SimpleNamespace(
        name="triton_convolution_3",
        description=f"BLOCK_M=64, SPLIT={split}, ALLOW_TF32=False",
        log_info={},
        input_nodes=[tensor(1, 256, 7, 7), tensor(512, 256, *taps)],
        layout=tensor(*output),
    )
    hints = SimpleNamespace(sizevars=SimpleNamespace(optimization_hint=int))
    with V.set_graph_handler(hints):
        product, parts = choice._product(template)
    assert (product, parts) == (Product(49, 512, 256, taps=taps[0] * taps[1], bytes=2), split)


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
    assert not fits(Tile(128, 128, 64, 4, 3), Product(512, 512, 512), H100)  # it spills
    assert fits(Tile(128, 128, 64, 4, 3), Product(512, 512, 512, tf32=True), H100)


def chosen(tuning: Tuning, usual: int = 0, candidates: Candidates | None = None) -> int:
    chooser = Chooser(H100, tuning, candidates)
    return chooser._chosen(
        WHAT, CHOSEN, lambda: (usual, [1, 2, 0]), lambda taken: {n: calls(candidates)[n] for n in taken}
    )


def calls(candidates: Candidates | None) -> list[Call]:
    """Return a call of each candidate, which records a launch of as many blocks as its number."""
    assert candidates is not None
    launches = [Launch("kernel", b"cubin %d" % n, (n, 1, 1), 128, 0, ()) for n in range(len(CHOSEN))]
    return [partial(candidates.launched, each) for each in launches]


def written(candidates: Candidates, folder: Path) -> dict[str, Any]:
    candidates.write(folder / "a.pyz", torch="2", triton="3", capability="9.0")
    with zipfile.ZipFile(folder / "a.pyz") as archive:
        package: dict[str, Any] = json.loads(archive.read("choices.json"))
        named = {each["cubin"] for choice in package["choices"] for each in choice["launches"]}
        assert {*archive.namelist()} == {"__main__.py", "choices.json", *named}
    return package


@pytest.mark.parametrize(
    ("limit", "usual", "taken"),
    [(2, 0, [0, 1]), (2, 2, [2, 1]), (3, 2, [2, 1, 0]), (64, 1, [1, 2, 0])],
)
def test_the_choice_by_cost_and_the_cheapest_become_candidates(
    tmp_path: Path, limit: int, usual: int, taken: list[int]
) -> None:
    candidates, tuning = Candidates(limit), Tuning()
    assert chosen(tuning, usual, candidates) == usual
    assert tuning.by_cost == [identity(WHAT)]
    (choice,) = written(candidates, tmp_path)["choices"]
    assert choice["usual"] == 0
    assert choice["chosen"] == [CHOSEN[n] for n in taken]
    assert [each["grid"][0] for each in choice["launches"]] == taken


def test_the_same_choice_is_taken_once(tmp_path: Path) -> None:
    candidates = Candidates(2)
    assert [chosen(Tuning(), 0, candidates), chosen(Tuning(), 0, candidates)] == [0, 0]
    assert len(written(candidates, tmp_path)["choices"]) == 1


def test_choices_of_a_tuning_file_have_no_candidates(tmp_path: Path) -> None:
    candidates = Candidates(2)
    assert chosen(Tuning({identity(WHAT): Entry(CHOSEN[1], "a.json:7")}), 0, candidates) == 1
    assert written(candidates, tmp_path)["choices"] == []


def test_a_launch_that_cannot_be_recorded_is_no_candidate(tmp_path: Path) -> None:
    def refuse() -> None:
        raise TimingError("clusters of blocks are not timed")

    candidates = Candidates(3)
    _, second, third = calls(candidates)
    candidates.add(WHAT, CHOSEN, 0, {0: refuse, 1: second, 2: third})
    (choice,) = written(candidates, tmp_path)["choices"]
    assert (choice["usual"], choice["chosen"]) == (None, CHOSEN[1:])


def test_packages_of_partitions_become_one(tmp_path: Path) -> None:
    for name, what in (("one", WHAT), ("other", {**WHAT, "op": "bmm"})):
        candidates = Candidates(2)
        candidates.add(what, CHOSEN, 0, dict(enumerate(calls(candidates))))
        candidates.write(tmp_path / f"{name}.pyz", torch="2", triton="3", capability="9.0")
    ways = [["one", "other"], ["other", "one", "one"]]
    made = []
    for way in ways:
        merge([tmp_path / f"{name}.pyz" for name in way], tmp_path / "both.pyz")
        made.append((tmp_path / "both.pyz").read_bytes())
    assert made[0] == made[1]
    with zipfile.ZipFile(tmp_path / "both.pyz") as archive:
        package = json.loads(archive.read("choices.json"))
    assert [each["op"] for each in package["choices"]] == ["bmm", "mm"]
    assert [package[name] for name in ("torch", "triton", "capability")] == ["2", "3", "9.0"]


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
