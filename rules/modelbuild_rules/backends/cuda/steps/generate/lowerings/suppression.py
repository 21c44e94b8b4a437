"""Greedy non-maximum suppression in two Triton kernels: one compares pairs of boxes, one decides.

The first makes a bit for each pair, of which Inductor would keep several numbers in memory. The second decides on 32
boxes at a time, best first: a box is kept unless a kept, better box suppresses it. Checked on torch 2.14.0 and triton
3.8.0.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton
from triton.language.extra.cuda import libdevice

_ROWS = 64
"""Boxes that are compared with 32 better ones at once, a multiple of 32."""

_WORDS = 128
"""Words of earlier boxes that are read at once."""


@triton.jit
def overlap_kernel(  # type: ignore[no-untyped-def]
    BOXES,
    CLASSES,
    APART,
    SUPPRESSED,
    count,
    words,
    BOUND: tl.constexpr,
    HALF: tl.constexpr,
    OF_CLASS: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    word = tl.program_id(1)
    if (word < words) & (word * 32 < (tl.program_id(0) + 1) * ROWS):  # suppression reads no other words
        better = word * 32 + tl.arange(0, 32)
        inside = row < count
        known = better < count
        left = tl.load(BOXES + row * 4, mask=inside, other=0.0)[:, None]
        top = tl.load(BOXES + row * 4 + 1, mask=inside, other=0.0)[:, None]
        right = tl.load(BOXES + row * 4 + 2, mask=inside, other=0.0)[:, None]
        bottom = tl.load(BOXES + row * 4 + 3, mask=inside, other=0.0)[:, None]
        lefts = tl.load(BOXES + better * 4, mask=known, other=0.0)[None, :]
        tops = tl.load(BOXES + better * 4 + 1, mask=known, other=0.0)[None, :]
        rights = tl.load(BOXES + better * 4 + 2, mask=known, other=0.0)[None, :]
        bottoms = tl.load(BOXES + better * 4 + 3, mask=known, other=0.0)[None, :]
        from_x, to_x = tl.where(lefts < left, left, lefts), tl.where(right < rights, right, rights)
        from_y, to_y = tl.where(tops < top, top, tops), tl.where(bottom < bottoms, bottom, bottoms)
        # Products are rounded before they are added: the compiler makes no fused operations of mul_rn.
        shared = libdevice.mul_rn(
            tl.where(from_x < to_x, to_x - from_x, 0.0), tl.where(from_y < to_y, to_y - from_y, 0.0)
        )
        areas = libdevice.mul_rn(rights - lefts, bottoms - tops)
        union = areas + libdevice.mul_rn(right - left, bottom - top) - shared
        rest = tl.fma(union, -BOUND, shared)
        hidden = (rest > union * HALF) & (union >= 0) & (better[None, :] < row[:, None])
        if OF_CLASS:
            own = tl.load(CLASSES + row, mask=inside, other=0)
            others = tl.load(CLASSES + better, mask=known, other=0)
            hidden = hidden & (tl.load(APART) | (own[:, None] == others[None, :]))
        bits = tl.sum(hidden.to(tl.int32) << tl.arange(0, 32)[None, :], 1)
        tl.store(SUPPRESSED + row.to(tl.int64) * words + word, bits, mask=inside)


@triton.jit
def suppression_kernel(  # type: ignore[no-untyped-def]
    SUPPRESSED,
    KEPT,
    BITS,  # the same as KEPT, 32 boxes a word
    count,
    words,
    WORDS: tl.constexpr,
):
    lane = tl.arange(0, 32)
    column = tl.arange(0, WORDS)
    for block in range(0, words):
        row = block * 32 + lane
        inside = row < count
        at = SUPPRESSED + row.to(tl.int64) * words
        own = tl.load(at + block, mask=inside, other=0)
        hits = tl.zeros((32, WORDS), dtype=tl.int32)
        for first in range(0, block, WORDS):
            earlier = first + column
            kept = tl.load(BITS + earlier, mask=earlier < block, other=0)
            by = tl.load(at[:, None] + earlier[None, :], mask=inside[:, None] & (earlier < block)[None, :], other=0)
            hits = hits | (by & kept[None, :])
        dropped = tl.max((hits != 0).to(tl.int32), 1)
        left = tl.where(inside & (dropped == 0), 1, 0) << lane
        before = tl.sum(left * 0)
        word = tl.sum(left)
        while word != before:  # the first boxes of a word are right after each turn
            before = word
            word = tl.sum(tl.where((own & word) == 0, left, 0))
        tl.store(BITS + block, word)
        tl.store(KEPT + row, (word >> lane) & 1, mask=inside)
        tl.debug_barrier()  # the next turn reads the word


@triton_op("modelbuild::overlaps", mutates_args={})
def overlaps(boxes: Tensor, classes: Tensor | None, apart: Tensor | None, bound: float, half: float) -> Tensor:
    """Return which better boxes suppress a box, as suppression() reads it; words after the box's own are not written.

    A box suppresses another if their intersection divided by their union, rounded to float32, is more than `bound`. A
    quotient s / u is rounded to more than `bound` if and only if it is more than bound + half an ulp, for a quotient is
    never half-way between two numbers; s - bound u is exact near that bound.

    boxes    float32 [boxes, 4], best first
    classes  int64 [boxes], if boxes suppress boxes of their class only, unless `apart`, bool [], is true
    bound    a float32
    half     half the distance from `bound` to the next float32
    """
    count = boxes.shape[0]
    words = (count + 31) // 32
    suppressed = torch.empty((count, words), dtype=torch.int32, device=boxes.device)
    wrap_triton(overlap_kernel)[(count // _ROWS + 1, words + 1)](
        boxes,
        boxes if classes is None else classes,
        boxes if apart is None else apart,
        suppressed,
        count,
        words,
        BOUND=bound,
        HALF=half,
        OF_CLASS=classes is not None,
        ROWS=_ROWS,
        num_warps=4,
    )
    return suppressed


@triton_op("modelbuild::suppression", mutates_args={})
def suppression(suppressed: Tensor) -> Tensor:
    """Return which boxes are kept, int32 [boxes].

    suppressed   int32 [boxes, words], boxes best first: bit b of word w of a box is set if box 32 w + b is better, and
                 overlaps it too much
    """
    count, words = suppressed.shape
    kept, bits = (torch.empty(size, dtype=torch.int32, device=suppressed.device) for size in (count, words))
    wrap_triton(suppression_kernel)[(1,)](suppressed, kept, bits, count, words, WORDS=_WORDS, num_warps=8)
    return kept
