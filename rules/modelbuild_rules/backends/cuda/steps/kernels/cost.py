"""Estimate the cost of a matrix product's or convolution's template on a GPU, without one.

The cost is in cycles. Tiles are distributed over the multiprocessors; each tile loops over the depth, and a step of the
loop takes as long as its products, its loads or the memory's latency, whichever is longest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu

_LATENCY = 800  # cycles between a memory request and its data
_STEP = 60  # cycles of a loop step besides products and waiting: barriers, addresses
_LOADED = 40  # bytes per cycle that a multiprocessor reads from the cache
_PLAIN, _TENSOR = 90, 400  # multiplications per cycle: of float32, and of 16 bits on tensor cores
_BEGIN = 2000  # cycles of a block's start and end


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product of `batch` times rows x depth and depth x columns, with `bytes` per element, on tensor cores or
    not. For a convolution, rows are positions, columns are channels, and the depth is processed in `taps` parts."""

    rows: int
    columns: int
    depth: int
    batch: int = 1
    taps: int = 1
    bytes: int = 4
    tensor_cores: bool = False


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile that a block of a template computes, with its warps and pipeline stages."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


def tile(info: Mapping[str, Any]) -> Tile:
    """Return a template's tile, from its log_info."""
    shape = info.get("tile_shape")
    if shape:
        rows, depth, columns = (int(part) for part in str(shape).strip("()").split(","))
    else:
        usual = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
        rows, columns, depth = (int(info.get(name, size)) for name, size in usual.items())
    return Tile(rows, columns, depth, int(info.get("num_warps") or 4), int(info.get("num_stages") or 1))


def cost(tile: Tile, product: Product, gpu: Gpu) -> float:
    """Return an estimate of a template's cycles."""
    blocks = math.ceil(product.rows / tile.rows) * math.ceil(product.columns / tile.columns) * product.batch
    waves = math.ceil(blocks / gpu.processors)
    steps = product.taps * math.ceil(product.depth / tile.depth)
    speed = _TENSOR * 2 / product.bytes if product.tensor_cores else _PLAIN
    # A block of few warps cannot use all of a multiprocessor; one whose warps hold more than 4096 elements is slow.
    used = min(1.0, tile.warps / 4)
    held = max(1.0, tile.rows * tile.columns / (tile.warps * 2048))
    products = tile.rows * tile.columns * tile.depth / speed / used * held
    loads = (tile.rows + tile.columns) * tile.depth * product.bytes / _LOADED
    waiting = _LATENCY / max(1, tile.stages - 1) if tile.stages > 1 else _LATENCY + products
    return waves * (_BEGIN + steps * (_STEP + max(products, loads, waiting)))
