"""Fit the rates of the cost model for products to times that were measured on a GPU.

    python benchmarks/gpu/cuda_cost.py tiles.jsonl times.jsonl ...

It reads what `cuda_tiles.py` and `cuda_peers.py times` write. For each precision it prints rates for
backends/cuda/steps/kernels/cost.py, and how much longer than the fastest tile the cheapest one takes: by these rates,
by those in the tree, and on products that were left out of the fit.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "rules")]

from modelbuild_rules.backends.cuda.steps.kernels import cost as model  # noqa: E402
from modelbuild_rules.backends.cuda.steps.kernels.cost import Product, Rates, Tile, cost, spills  # noqa: E402
from modelbuild_rules.backends.cuda.steps.kernels.device import GPUS  # noqa: E402

GPU = GPUS[90]
CLOCK = 1755  # cycles per microsecond
LAUNCH = 2.5  # microseconds between the events around a kernel, besides its own
TURNS, FOLDS = 1000, 3
FAR = 2.5
"""Tiles that take longer than the fastest by this factor do not count in the error of estimates."""


@dataclass(frozen=True)
class Kernel:
    """A kernel's microseconds, its tile, and the parts of its depth; `spilled`: bytes."""

    took: float
    tile: Tile
    split: int
    spilled: int


@dataclass(frozen=True)
class Timed:
    """A product and its kernels. `absolute`: their inputs were in the cache, so that times are not only relative."""

    product: Product
    kind: str
    kernels: Sequence[Kernel]
    absolute: bool

    @property
    def fastest(self) -> float:
        return min(each.took for each in self.kernels)


def of_tiles(line: dict[str, Any]) -> Timed:
    """Return a line of cuda_tiles.py's, whose times lack the kernel that adds the parts."""
    batch, channels, size, outputs, taps, stride, padding = line["case"]
    kind, length = line["kind"], (size + 2 * padding - taps) // stride + 1
    about: dict[str, Any] = {"bytes": 2 if kind == "half" else 4, "tf32": kind == "tf32"}
    product = Product(batch * length**2, outputs, channels, taps=taps**2, **about)

    def added(split: int) -> float:
        if split == 1:
            return 0
        size = product.rows * product.columns
        return (model._SUM_BEGIN + (split + 1) * size * 4 / model._SUM_BYTES / GPU.processors) / CLOCK

    kernels = [
        Kernel(took + added(split), Tile(*tile), split, spilled) for took, tile, split, _, _, spilled in line["rows"]
    ]
    return Timed(product, kind, kernels, absolute=True)


def of_candidates(line: dict[str, Any]) -> Timed | None:
    """Return a line of `cuda_peers.py times`; None if it is no product."""
    if not re.search("mm|convolution", line["op"]):
        return None
    types, sizes = zip(*map(_shape, line["inputs"]), strict=True)
    output, kernels = _shape(line["output"])[1], []
    options = [{**line["options"], **chosen} for _, chosen, *_ in line["rows"]]
    split = int(options[0].get("SPLIT", 1))
    if "convolution" in line["op"] or options[0]["template"] == "convolution":
        outputs, depth, *taps = sizes[1]
        rows, columns, count = math.prod(output) // outputs // split, outputs, math.prod(taps)
    else:
        rows, columns, count = output[-2], output[-1], 1
        depth = math.prod(sizes[-2]) // rows
    for (took, _, _, spilled), each in zip(line["rows"], options, strict=True):
        tile = Tile(*(each[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")))
        kernels.append(Kernel(took - LAUNCH, tile, split, spilled))
    tf32 = types[-1] == "float32" and bool(options[0].get("ALLOW_TF32"))
    kind = "half" if types[-1] != "float32" else "tf32" if tf32 else "fp32"
    about: dict[str, Any] = {"bytes": 4 if types[-1] == "float32" else 2, "tf32": tf32}
    return Timed(Product(rows, columns, depth, taps=count, **about), kind, kernels, absolute=False)


def _shape(text: str) -> tuple[str, list[int]]:
    dtype, sizes = text.split(" by ")[0].split(" ", 1)
    return dtype, json.loads(sizes)


def estimated(timed: Timed, kernel: Kernel) -> float:
    return cost(kernel.tile, timed.product, GPU, kernel.split)


def loss(timed: Timed) -> float:
    """Return the time of the cheapest kernel, of those that spill nothing by estimate, relative to the fastest one."""
    about = [(spills(each.tile, timed.product, GPU), estimated(timed, each)) for each in timed.kernels]
    costs = [(*each, n) for n, each in enumerate(about)]
    return timed.kernels[min(costs)[2]].took / timed.fastest


def error(timed: Timed) -> float:
    """Return the variance of the logarithms of estimates, relative to times; tiles near the fastest count more. A
    factor that all tiles share counts less."""
    near = [each for each in timed.kernels if not each.spilled and each.took < FAR * timed.fastest]
    if not near:
        return 0.0
    weights = np.array([1 / (1 + 5 * (each.took / timed.fastest - 1)) for each in near])
    wrong = np.log([estimated(timed, each) / (each.took * CLOCK) for each in near])
    middle = float((weights * wrong).sum() / weights.sum())
    variance = float((weights * (wrong - middle) ** 2).sum() / weights.sum())
    return 10 * variance + (0.3 if timed.absolute else 0.1) * middle**2


def fitted(products: Sequence[Timed], kind: str, begin: Rates, scale: float, turns: int) -> Rates:
    """Return rates, found by random steps, with which the cheapest kernels are fast and estimates are right."""

    def wrong(logarithms: Any) -> float:
        model.RATES[kind] = Rates(*np.exp(logarithms))
        return statistics.mean(min(loss(each), 3) + 0.2 * error(each) for each in products)

    usual, random, point = model.RATES[kind], np.random.default_rng(0), np.log(astuple(begin))
    least = wrong(point)
    for turn in range(turns):
        other = point + random.normal(size=len(point)) * scale * (random.random(len(point)) < 0.5)
        value = wrong(other)
        if value < least:
            point, least = other, value
        scale *= 0.75 if turn % (turns // 8) == turns // 8 - 1 else 1
    model.RATES[kind] = usual
    return Rates(*np.exp(point))


def losses(products: Sequence[Timed], kind: str, rates: Rates) -> list[float]:
    usual, model.RATES[kind] = model.RATES[kind], rates
    found = [loss(each) for each in products]
    model.RATES[kind] = usual
    return found


def main(files: Sequence[Path]) -> None:
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    products = [found for each in lines if (found := of_tiles(each) if "kind" in each else of_candidates(each))]
    for kind, usual in list(model.RATES.items()):
        # Of few channels, most of a kernel's time is arithmetic of indices, which the model lacks.
        some = [each for each in products if each.kind == kind and each.product.depth > 3]
        if not some:
            continue
        rates = fitted(some, kind, usual, 0.4, TURNS)
        left_out: list[float] = []
        for fold in range(FOLDS):
            others = [each for n, each in enumerate(some) if n % FOLDS != fold]
            left_out += losses(some[fold::FOLDS], kind, fitted(others, kind, rates, 0.2, TURNS // 2))
        print(f"{kind}, {len(some)} products:", Rates(*(float(f"{each:.3g}") for each in astuple(rates))))
        for name, found in (
            ("these rates", losses(some, kind, rates)),
            ("those in the tree", losses(some, kind, usual)),
            ("left out", left_out),
        ):
            print(f"  {name}: mean {statistics.mean(found):.3f}, greatest {max(found):.2f}", flush=True)


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
