"""Peaks of resized heat maps in one Triton kernel, which stores no resized map. Checked on torch 2.14.0 and triton
3.8.0."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton
from triton.language.extra.cuda import libdevice

_PIXELS = 1024
"""Pixels of a resized map that are computed at once."""

_LONGEST = 1 << 15
"""The longest side of a resized map, in pixels: the number of a pixel is an int32."""


@triton.jit
def _near(x):  # type: ignore[no-untyped-def]
    """Return the weight of a pixel at a distance of up to 1; torch's a is -0.75."""
    return (1.25 * x - 2.25) * x * x + 1


@triton.jit
def _far(x):  # type: ignore[no-untyped-def]
    """Return the weight of a pixel at a distance from 1 to 2."""
    return ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0


@triton.jit
def _place(pixel, step):  # type: ignore[no-untyped-def]
    """Return the second of four pixels that a pixel of the resized map depends on, and the distance from it."""
    at = libdevice.mul_rn(pixel.to(tl.float32) + 0.5, step) - 0.5
    low = tl.floor(at)
    return low.to(tl.int32), at - low


@triton.jit
def _row(MAP, line, left, columns: tl.constexpr, x, inside):  # type: ignore[no-untyped-def]
    """Return the values of a map's row between four pixels."""
    at = MAP + line * columns
    last = columns - 1
    zeroth = tl.load(at + tl.minimum(tl.maximum(left - 1, 0), last), mask=inside, other=0.0).to(tl.float32)
    first = tl.load(at + tl.minimum(tl.maximum(left, 0), last), mask=inside, other=0.0).to(tl.float32)
    second = tl.load(at + tl.minimum(tl.maximum(left + 1, 0), last), mask=inside, other=0.0).to(tl.float32)
    third = tl.load(at + tl.minimum(tl.maximum(left + 2, 0), last), mask=inside, other=0.0).to(tl.float32)
    return zeroth * _far(x + 1) + first * _near(x) + second * _near(1 - x) + third * _far(2 - x)


@triton.jit
def peaks_kernel(  # type: ignore[no-untyped-def]
    MAPS,
    HEIGHTS,
    WIDTHS,
    PEAKS,
    count,
    maps,  # of a region
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PIXELS: tl.constexpr,
    LONGEST: tl.constexpr,
):
    number = tl.program_id(0)
    if number < count:
        region = number // maps
        MAP = MAPS + number.to(tl.int64) * (ROWS * COLUMNS)
        height, width = tl.load(HEIGHTS + region), tl.load(WIDTHS + region)
        valid = (height >= 1) & (height <= LONGEST) & (width >= 1) & (width <= LONGEST)
        tall = tl.where(valid, height, 1).to(tl.int32)
        wide = tl.where(valid, width, 1).to(tl.int32)
        down = tl.div_rn(tl.full((), ROWS, tl.float32), tall.to(tl.float32))
        along = tl.div_rn(tl.full((), COLUMNS, tl.float32), wide.to(tl.float32))
        lane = tl.arange(0, PIXELS)
        best = tl.full((PIXELS,), float("-inf"), tl.float32)
        where = lane
        for start in range(0, tall * wide, PIXELS):
            pixel = start + lane
            inside = pixel < tall * wide
            top, y = _place(pixel // wide, down)
            left, x = _place(pixel % wide, along)
            value = (
                _row(MAP, tl.minimum(tl.maximum(top - 1, 0), ROWS - 1), left, COLUMNS, x, inside) * _far(y + 1)
                + _row(MAP, tl.minimum(tl.maximum(top, 0), ROWS - 1), left, COLUMNS, x, inside) * _near(y)
                + _row(MAP, tl.minimum(tl.maximum(top + 1, 0), ROWS - 1), left, COLUMNS, x, inside) * _near(1 - y)
                + _row(MAP, tl.minimum(tl.maximum(top + 2, 0), ROWS - 1), left, COLUMNS, x, inside) * _far(2 - y)
            )
            value = value.to(MAPS.dtype.element_ty).to(tl.float32)  # eager mode compares rounded values
            better = inside & ((value > best) | ((value != value) & (best == best)))
            best = tl.where(better, value, best)
            where = tl.where(better, pixel, where)
        nan = tl.max((best != best).to(tl.int32), 0)
        greatest = tl.max(tl.where(best == best, best, float("-inf")), 0)
        is_peak = tl.where(nan != 0, (best != best).to(tl.int32), (best == greatest).to(tl.int32)) != 0
        place = tl.min(tl.where(is_peak, where, 2147483647), 0)
        peak = tl.where(nan != 0, float("nan"), greatest)
        at = PEAKS + number.to(tl.int64) * 3
        tl.store(at, tl.where(valid, (place % wide).to(tl.float32), float("nan")))
        tl.store(at + 1, tl.where(valid, (place // wide).to(tl.float32), float("nan")))
        tl.store(at + 2, tl.where(valid, peak, float("nan")))


@triton_op("modelbuild::peaks", mutates_args={})
def peaks(maps: Tensor, heights: Tensor, widths: Tensor) -> Tensor:
    """Return the column, row and value of the first greatest pixel of each map resized by bicubic interpolation,
    float32 [regions, maps, 3]. A NaN is the greatest. All three are NaN for a side below 1 or above 32768.

    maps             [regions, maps, rows, columns], not empty
    heights, widths  int64 [regions], to which the maps of a region are resized, in pixels
    """
    regions, each, rows, columns = maps.shape
    # One more block than maps: a launch of none is an error.
    found = torch.empty((regions, each, 3), dtype=torch.float32, device=maps.device)
    wrap_triton(peaks_kernel)[(regions * each + 1,)](
        maps,
        heights,
        widths,
        found,
        regions * each,
        each,
        ROWS=rows,
        COLUMNS=columns,
        PIXELS=_PIXELS,
        LONGEST=_LONGEST,
        num_warps=4,
    )
    return found
