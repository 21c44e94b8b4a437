"""Greedy non-maximum suppression in one Triton kernel, after all pairs of boxes have been compared.

A program decides on 32 boxes at a time, best first: a box is kept unless a kept, better box suppresses it. Checked on
torch 2.14.0 and triton 3.8.0.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

_WORDS = 64
"""Words of earlier boxes that are read at once."""


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
        dropped = tl.zeros((32,), dtype=tl.int32)
        for first in range(0, block, WORDS):
            earlier = first + column
            kept = tl.load(BITS + earlier, mask=earlier < block, other=0)
            by = tl.load(at[:, None] + earlier[None, :], mask=inside[:, None] & (earlier < block)[None, :], other=0)
            dropped = tl.maximum(dropped, tl.max(((by & kept[None, :]) != 0).to(tl.int32), 1))
        left = tl.where(inside & (dropped == 0), 1, 0) << lane
        before = tl.sum(left * 0)
        word = tl.sum(left)
        while word != before:  # the first boxes of a word are right after each turn
            before = word
            word = tl.sum(tl.where((own & word) == 0, left, 0))
        tl.store(BITS + block, word)
        tl.store(KEPT + row, (word >> lane) & 1, mask=inside)
        tl.debug_barrier()  # the next turn reads the word


@triton_op("modelbuild::suppression", mutates_args={})
def suppression(suppressed: Tensor) -> Tensor:
    """Return which boxes are kept, int32 [boxes].

    suppressed   int32 [boxes, words], boxes best first: bit b of word w of a box is set if box 32 w + b is better, and
                 overlaps it too much
    """
    count, words = suppressed.shape
    kept, bits = (torch.empty(size, dtype=torch.int32, device=suppressed.device) for size in (count, words))
    wrap_triton(suppression_kernel)[(1,)](suppressed, kept, bits, count, words, WORDS=_WORDS, num_warps=4)
    return kept
