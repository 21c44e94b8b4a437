"""Estimate the cost of a matrix product's or convolution's template on a GPU, without using a GPU.

The cost is in cycles. Tiles are distributed over the multiprocessors, several to each; a tile loops over its part of
the depth, and a step of the loop takes as long as its products, its loads or the memory's latency, whichever is
longest, and a time in which it does neither. The rates were fitted to times on an NVIDIA H200 by
benchmarks/gpu/cuda_cost.py (docs/reference/gpu-verification.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu


@dataclass(frozen=True, slots=True)
class Rates:
    """The speed of a multiprocessor of compute capability 9.0.

    latency   cycles between a memory request and its data
    step      cycles of a loop step without products and waiting: barriers, addresses
    products  multiplications per cycle
    narrow    factor of their time in tiles with less than 16 rows for each warp
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
    narrow: float


RATES = {
    "fp32": Rates(201, 403, 129, 391, 39.5, 6840, 1.71),  # as three products of TF32
    "tf32": Rates(1100, 176, 568, 86, 12.4, 4950, 1.19),
    "half": Rates(946, 15.5, 949, 38, 11.4, 4700, 1.52),
}
_HELD = 64
"""Elements of a tile's inputs for which a thread has registers in a float32 product, which splits each in two."""

_SUM_BEGIN, _SUM_BYTES = 2600, 8  # cycles, and bytes per cycle, of the kernel that adds the parts of a depth


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product of `batch` times rows x depth and depth x columns, with `bytes` per element. For a convolution,
    rows are positions, columns are channels, and the depth is processed in `taps` parts. `tf32`: float32 products use
    TF32."""

    rows: int
    columns: int
    depth: int
    batch: int = 1
    taps: int = 1
    bytes: int = 4
    tf32: bool = False

    def describe(self) -> str:
        """Return the sizes for a message: "64x128x576" are rows, columns and depth, after the size of the batch."""
        sizes = (*([self.batch] if self.batch > 1 else []), self.rows, self.columns, self.depth * self.taps)
        return "x".join(map(str, sizes))

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
        """Return the number of loop steps. If the depth is not a multiple of the tile's, a step takes several taps."""
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
    """Return whether a tile fits the GPU's shared memory and is less than twice as large as the product. For few
    columns, such as a picture's three channels, the smallest tiles fit."""
    small = tile.rows < 2 * max(product.rows, 16) and tile.columns <= max(32, 2 * product.columns - 1)
    return small and tile.shared_memory(product) <= gpu.shared_memory and not spills(tile, product, gpu)


def spills(tile: Tile, product: Product, gpu: Gpu) -> bool:
    """Return whether a thread has too few registers for its part of a tile, so that it keeps values in memory."""
    if product.rates is not RATES["fp32"]:
        return False
    if gpu.capability // 10 in (9, 10, 11) and tile.rows >= 64:  # tensor cores read shared memory
        held = (tile.rows + tile.columns) * tile.depth / tile.warps / 32
        # Of as many, the small tile spilled in products and was slow; the large one and convolutions were not.
        return held > _HELD or (held == _HELD and tile.rows == 64 and product.taps == 1)
    # Warps that share rows or columns hold copies of them.
    rows = [2**n for n in range(tile.warps.bit_length()) if 16 * 2**n <= max(tile.rows, 16)]
    return min(tile.rows / n + tile.columns * n / tile.warps for n in rows) * tile.depth / 32 > _HELD


def cost(tile: Tile, product: Product, gpu: Gpu, split: int = 1) -> float:
    """Return an estimate of a template's cycles, with its depth split into parts, and of the kernel that adds them."""
    cycles = template_cycles(tile, product, gpu, split)
    size = product.rows * product.columns * product.batch
    return cycles if split == 1 else cycles + _SUM_BEGIN + (split + 1) * size * 4 / _SUM_BYTES / gpu.processors


def template_cycles(tile: Tile, product: Product, gpu: Gpu, split: int = 1) -> float:
    """Return an estimate of the cycles of a template's kernel; the arguments are those of `cost`."""
    rates = product.rates
    size = product.rows * product.columns * product.batch
    blocks = math.ceil(product.rows / tile.rows) * math.ceil(product.columns / tile.columns) * product.batch * split
    most = max(1, min(gpu.shared_memory // tile.shared_memory(product), gpu.threads // (32 * tile.warps), 16))
    steps = math.ceil(tile.steps(product) / split)
    rounds, rest = divmod(math.ceil(blocks / gpu.processors), most)
    cycles = rates.begin + rounds * _round(tile, product, gpu, steps, most)
    cycles += _round(tile, product, gpu, steps, rest) if rest else 0
    return cycles + split * size * 4 / rates.written / gpu.processors


def _round(tile: Tile, product: Product, gpu: Gpu, steps: int, resident: int) -> float:
    """Return the cycles in which a multiprocessor computes its resident blocks, of so many loop steps each."""
    rates = product.rates
    products = tile.rows * tile.columns * tile.depth / (rates.products * gpu.products)
    products *= rates.narrow if tile.rows < 16 * tile.warps else 1
    loads = (tile.rows + tile.columns) * tile.depth * product.bytes / rates.loaded
    if tile.stages > 2 and tile.shared_memory(product) <= gpu.shared_memory:
        # A block of few warps cannot use all of a multiprocessor.
        alone = rates.step + max(products * max(1, 4 / tile.warps), loads, rates.latency / (tile.stages - 1))
        shared = rates.step + max(products, loads)
    else:  # products and loads take turns; Triton has no pipeline in a loop whose stages do not fit
        shared = rates.step + products + loads
        alone = shared + rates.latency
    return rates.latency + steps * max(alone, resident * shared)
