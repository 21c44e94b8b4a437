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

MOST_BOXES = 65536
"""The words of so many boxes fit the registers of a program."""


@triton.jit
def suppression_kernel(  # type: ignore[no-untyped-def]
    SUPPRESSED,
    KEPT,
    count,
    words,
    WORDS: tl.constexpr,
):
    lane = tl.arange(0, 32)
    column = tl.arange(0, WORDS)
    kept = tl.zeros((WORDS,), dtype=tl.int32)
    for block in range(0, words):
        row = block * 32 + lane
        inside = row < count
        at = SUPPRESSED + row[:, None].to(tl.int64) * words + column[None, :]
        by = tl.load(at, mask=inside[:, None] & (column <= block)[None, :], other=0)
        dropped = tl.max(((by & kept[None, :]) != 0).to(tl.int32), 1)
        own = tl.sum(tl.where((column == block)[None, :], by, 0), 1)
        left = tl.where(inside & (dropped == 0), 1, 0) << lane
        before = tl.sum(left * 0)
        word = tl.sum(left)
        while word != before:  # the first boxes of a word are right after each turn
            before = word
            word = tl.sum(tl.where((own & word) == 0, left, 0))
        kept = tl.where(column == block, word, kept)
        tl.store(KEPT + row, (word >> lane) & 1, mask=inside)


@triton_op("modelbuild::suppression", mutates_args={})
def suppression(suppressed: Tensor, most: int) -> Tensor:
    """Return which boxes are kept, int32 [boxes].

    suppressed   int32 [boxes, words], boxes best first: bit b of word w of a box is set if box 32 w + b is better, and
                 overlaps it too much
    most         the bound of the number of boxes
    """
    count, words = suppressed.shape
    kept = torch.empty(count, dtype=torch.int32, device=suppressed.device)
    width = max(16, triton.next_power_of_2(-(-most // 32)))
    wrap_triton(suppression_kernel)[(1,)](
        suppressed, kept, count, words, WORDS=width, num_warps=min(32, max(4, width // 16))
    )
    return kept
