"""Estimate the cost of a matrix product's or convolution's template on a GPU, without one.

The cost is in cycles. Tiles are distributed over the multiprocessors, several to each; a tile loops over its part of
the depth, and a step of the loop takes as long as its products, its loads or the memory's latency, whichever is
longest. The rates were fitted to 7,536 times on an NVIDIA H200 by benchmarks/gpu/cuda_tiles.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelbuild_rules.backends.cuda.steps.kernels.device import REGISTERS, Gpu

SPLITTING = "convolution"
"""The name of the template whose depth may be split among blocks (generate/lowerings/template.py)."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The speed of a multiprocessor of compute capability 9.0.

    latency   cycles between a memory request and its data
    step      cycles of a loop step besides products and waiting: barriers, addresses
    products  multiplications per cycle
    loaded    bytes per cycle that are read
    written   bytes per cycle that are written
    begin     cycles of a kernel's start and end
    """

    latency: float
    step: float
    products: float
    loaded: float
    written: float
    begin: float


RATES = {
    "fp32": Rates(1803, 645, 158, 20.4, 13.3, 4112),  # as three products of TF32
    "tf32": Rates(865, 227, 624, 50.4, 11.3, 4074),
    "half": Rates(7, 180, 975, 47.4, 14.1, 4336),
}
_SUM_BEGIN, _SUM_BYTES = 2600, 8  # cycles, and bytes per cycle, of the kernel that adds the parts of a depth


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product of `batch` times rows x depth and depth x columns, with `bytes` per element. For a convolution,
    rows are positions, columns are channels, and the depth is processed in `taps` parts. `tf32`: of float32."""

    rows: int
    columns: int
    depth: int
    batch: int = 1
    taps: int = 1
    bytes: int = 4
    tf32: bool = False

    @property
    def rates(self) -> Rates:
        return RATES["half" if self.bytes == 2 else "tf32" if self.tf32 else "fp32"]


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile that a block of a template computes, with its warps and pipeline stages."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int

    def steps(self, product: Product) -> int:
        """Return the number of loop steps. If the depth is no multiple of the tile's, a step takes several taps."""
        if product.depth % self.depth:
            return math.ceil(product.taps * product.depth / self.depth)
        return product.taps * product.depth // self.depth

    def shared_memory(self, product: Product) -> int:
        """Return the bytes of the tile's inputs in all stages."""
        return self.stages * (self.rows + self.columns) * self.depth * product.bytes


def tile(info: Mapping[str, Any]) -> Tile:
    """Return a template's tile, from its log_info."""
    shape = info.get("tile_shape")
    if shape:
        rows, depth, columns = (int(part) for part in str(shape).strip("()").split(","))
    else:
        usual = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
        rows, columns, depth = (int(info.get(name, size)) for name, size in usual.items())
    return Tile(rows, columns, depth, int(info.get("num_warps") or 4), int(info.get("num_stages") or 1))


def fits(tile: Tile, product: Product, gpu: Gpu) -> bool:
    """Return whether a tile fits the GPU's shared memory, and is less than twice as large as the product."""
    small = tile.rows < 2 * max(product.rows, 16) and tile.columns < 2 * max(product.columns, 16)
    return small and tile.shared_memory(product) <= gpu.shared_memory


def cost(tile: Tile, product: Product, gpu: Gpu, split: int = 1, registers: int = 0) -> float:
    """Return an estimate of a template's cycles, with its depth split into parts that are added afterwards.

    registers  of a thread, of a kernel that is compiled; they may let fewer blocks share a multiprocessor
    """
    rates = product.rates
    size = product.rows * product.columns * product.batch
    blocks = math.ceil(product.rows / tile.rows) * math.ceil(product.columns / tile.columns) * product.batch * split
    threads = min(gpu.threads, REGISTERS // registers) if registers else gpu.threads
    most = max(1, min(gpu.shared_memory // tile.shared_memory(product), threads // (32 * tile.warps), 16))
    resident = min(math.ceil(blocks / gpu.processors), most)
    rounds = math.ceil(blocks / (gpu.processors * most))
    products = tile.rows * tile.columns * tile.depth / (rates.products * gpu.products)
    loads = (tile.rows + tile.columns) * tile.depth * product.bytes / rates.loaded
    # A block of few warps cannot use all of a multiprocessor.
    alone = rates.step + max(products * max(1, 4 / tile.warps), loads, rates.latency / max(1, tile.stages - 1))
    # With two stages they take turns. The rates were fitted to tiles of three and more; of two, kernels in float16 took
    # 1,225 and 6,140 cycles a step, and this sum gives 1,461 and 6,378.
    shared = max(products, loads) if tile.stages > 2 else products + loads + rates.step
    steps = math.ceil(tile.steps(product) / split)
    cycles = rates.begin + rounds * (rates.latency + steps * max(alone, resident * shared))
    cycles += split * size * 4 / rates.written / gpu.processors
    return cycles if split == 1 else cycles + _SUM_BEGIN + (split + 1) * size * 4 / _SUM_BYTES / gpu.processors
