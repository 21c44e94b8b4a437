"""What a template of a matrix product or convolution costs on a GPU that is not here.

An estimate of its cycles: its tiles, shared out to the multiprocessors, each with a loop over the depth whose steps
take what their products, their loads or the memory's latency take, whichever is most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu

_LATENCY = 800  # cycles from asking for data in memory until it is there
_STEP = 60  # cycles of a step of the loop that are neither products nor waiting: barriers, addresses
_LOADED = 40  # bytes a cycle that a multiprocessor gets out of the cache
_PLAIN, _TENSOR = 90, 400  # multiplications of float32, and of 16 bits on tensor cores, in a cycle
_BEGIN = 2000  # cycles of a block's beginning and end


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product of `batch` times rows x depth and depth x columns, `bytes` of an element, `tensor_cores` where
    those compute it. A convolution's rows are places, its columns channels, and its depth is walked in `taps` parts."""

    rows: int
    columns: int
    depth: int
    batch: int = 1
    taps: int = 1
    bytes: int = 4
    tensor_cores: bool = False


@dataclass(frozen=True, slots=True)
class Tile:
    """What a template computes at once, and how."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


def tile(info: Mapping[str, Any]) -> Tile:
    """What a template says of itself in its log_info."""
    shape = info.get("tile_shape")
    if shape:
        rows, depth, columns = (int(part) for part in str(shape).strip("()").split(","))
    else:
        usual = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
        rows, columns, depth = (int(info.get(name, size)) for name, size in usual.items())
    return Tile(rows, columns, depth, int(info.get("num_warps") or 4), int(info.get("num_stages") or 1))


def cost(tile: Tile, product: Product, gpu: Gpu) -> float:
    """Cycles that a template takes, roughly."""
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
