"""A Triton template for convolutions and matrix products whose depth may be split among blocks.

It has Inductor's form (torch/_inductor/kernel/conv.py) with these differences: the depth is processed by SPLIT blocks,
whose sums are added afterwards, so that small images use the whole GPU; masks are omitted if no block is cut off; with
few channels, a step takes several taps; and the output is a matrix, in the order of its memory, so that Inductor fuses
the operators that follow. Uses private parts of torch, which target_gpu.py lists.
"""

from __future__ import annotations

from functools import cache
from typing import Any

SOURCE = r"""
{{def_kernel("X", "W")}}
    BATCH = {{size("X", 0)}}
    IN_H = {{size("X", 2)}}
    IN_W = {{size("X", 3)}}
    GROUP_IN = {{size("W", 1)}}
    GROUP_OUT = {{size("W", 0)}} // GROUPS
    OUT_H = (IN_H + 2 * PADDING_H - KERNEL_H) // STRIDE_H + 1
    OUT_W = (IN_W + 2 * PADDING_W - KERNEL_W) // STRIDE_W + 1

    stride_xn = {{stride("X", 0)}}
    stride_xc = {{stride("X", 1)}}
    stride_xh = {{stride("X", 2)}}
    stride_xw = {{stride("X", 3)}}
    stride_wo = {{stride("W", 0)}}
    stride_wi = {{stride("W", 1)}}
    stride_wh = {{stride("W", 2)}}
    stride_ww = {{stride("W", 3)}}

    position = tl.program_id(0).to(INDEX_DTYPE) * BLOCK_M + tl.arange(0, BLOCK_M)
    idx_w = position % OUT_W
    idx_h = (position // OUT_W) % OUT_H
    idx_n = position // (OUT_W * OUT_H)
    idx_o = tl.program_id(1).to(INDEX_DTYPE) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.program_id(2).to(INDEX_DTYPE) % SPLIT
    group = tl.program_id(2).to(INDEX_DTYPE) // SPLIT

    top = idx_h * STRIDE_H - PADDING_H
    left = idx_w * STRIDE_W - PADDING_W
    x_base = X + group * GROUP_IN * stride_xc + idx_n * stride_xn + top * stride_xh + left * stride_xw
    w_base = W + (group * GROUP_OUT + idx_o) * stride_wo
    in_batch = idx_n < BATCH
    in_group = idx_o < GROUP_OUT

{% if TOGETHER %}
    steps = (KERNEL_H * KERNEL_W * GROUP_IN + BLOCK_K - 1) // BLOCK_K
{% else %}
    steps_of_tap = (GROUP_IN + BLOCK_K - 1) // BLOCK_K
    steps = KERNEL_H * KERNEL_W * steps_of_tap
{% endif %}
    steps_of_part = (steps + SPLIT - 1) // SPLIT
    begin = part * steps_of_part
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # A negative position is a large unsigned number. The stride of a dimension of size 1 may be odd: it is not used, or
    # Triton would not see that a row's address is a multiple of 16 bytes.
    for step in range(begin, tl.minimum(begin + steps_of_part, steps)):
{% if TOGETHER %}
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        tap = k // GROUP_IN
        c = k % GROUP_IN
        i = tap // KERNEL_W
        j = tap % KERNEL_W
        in_kernel = tap < KERNEL_H * KERNEL_W
        inside = (
            in_batch[:, None]
            & in_kernel[None, :]
            & ((top[:, None] + i[None, :]).to(tl.uint32) < IN_H)
            & ((left[:, None] + j[None, :]).to(tl.uint32) < IN_W)
        )
        x = tl.load(x_base[:, None] + (i * stride_xh + j * stride_xw + c * stride_xc)[None, :], mask=inside, other=0.0)
        w_offset = c * stride_wi + i * stride_wh + j * stride_ww
        w = tl.load(w_base[None, :] + w_offset[:, None], mask=in_group[None, :] & in_kernel[:, None], other=0.0)
{% else %}
        c = (step % steps_of_tap) * BLOCK_K + tl.arange(0, BLOCK_K)
        tap = step // steps_of_tap
        i = {{"0" if KERNEL_H == 1 else "tap // KERNEL_W"}}
        j = {{"0" if KERNEL_W == 1 else "tap % KERNEL_W"}}
        inside = in_batch & ((top + i).to(tl.uint32) < IN_H) & ((left + j).to(tl.uint32) < IN_W)
        x_tap = x_base + (i * stride_xh + j * stride_xw)
        w_tap = w_base + (i * stride_wh + j * stride_ww)
{% if WHOLE %}
        x = tl.load(x_tap[:, None] + (c * stride_xc)[None, :], mask=inside[:, None], other=0.0)
        w = tl.load(w_tap[None, :] + (c * stride_wi)[:, None], mask=in_group[None, :], other=0.0)
{% else %}
        in_depth = c < GROUP_IN
        x = tl.load(x_tap[:, None] + (c * stride_xc)[None, :], mask=inside[:, None] & in_depth[None, :], other=0.0)
        w = tl.load(w_tap[None, :] + (c * stride_wi)[:, None], mask=in_group[None, :] & in_depth[:, None], other=0.0)
{% endif %}
{% endif %}
        acc = tl.dot(x, w, acc, allow_tf32=ALLOW_TF32)

    mask = in_batch[:, None] & in_group[None, :]
    idx_m = position[:, None]
    idx_c = group * GROUP_OUT + idx_o[None, :]
{% if SPLIT > 1 %}
    idx_s = tl.zeros((BLOCK_M, BLOCK_N), dtype=INDEX_DTYPE) + part
    {{store_output(("idx_s", "idx_m", "idx_c"), "acc", "mask", val_shape=("BLOCK_M", "BLOCK_N"))}}
{% else %}
    {{store_output(("idx_m", "idx_c"), "acc", "mask", val_shape=("BLOCK_M", "BLOCK_N"))}}
{% endif %}
"""
"""WHOLE: the channels of a group are a multiple of BLOCK_K. TOGETHER: a step takes channels of several taps."""


@cache
def template() -> Any:
    """Return the template (a TritonTemplate) with the inputs X [batch, channels, height, width] and W [outputs,
    channels of a group, kernel height, kernel width], of any strides. Its output is [batch * height * width, outputs],
    or has `SPLIT` > 1 parts [SPLIT, batch * height * width, outputs] in float32, whose sum is the result."""
    from torch._inductor.select_algorithm import SymbolicGridFn, TritonTemplate

    @SymbolicGridFn
    def grid(*given: Any, cdiv: Any) -> tuple[Any, Any, Any]:
        *_, positions, outputs, meta = given
        groups = meta["GROUPS"]
        return (
            cdiv(positions, meta["BLOCK_M"]),
            cdiv(outputs // groups, meta["BLOCK_N"]),
            groups * meta["SPLIT"],
        )

    return TritonTemplate(name="convolution", grid=grid, source=SOURCE)
