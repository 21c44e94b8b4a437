"""Attention in one Triton kernel, which never stores the matrix of weights (FlashAttention-2, Dao 2023).

It replaces `aten.scaled_dot_product_attention` before Inductor decomposes it. Checked on torch 2.14.0 and triton 3.8.0.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

MAX_HEAD = 256
"""The largest size of a head; tiles of larger heads do not fit a GPU's shared memory."""

_LOG2E = 1.4426950408889634


@triton.jit
def attention_kernel(  # type: ignore[no-untyped-def]
    Q,
    K,
    V,
    MASK,
    OUT,
    SCALE: tl.constexpr,  # times log2(e), unless a mask is added
    queries,
    keys,
    heads,
    sharing,  # heads of Q for each head of K and V
    stride_qb,
    stride_qh,
    stride_qm,
    stride_qd,
    stride_kb,
    stride_kh,
    stride_kn,
    stride_kd,
    stride_vb,
    stride_vh,
    stride_vn,
    stride_vd,
    stride_mb,
    stride_mh,
    stride_mm,
    stride_mn,
    stride_ob,
    stride_oh,
    stride_om,
    stride_od,
    HEAD: tl.constexpr,
    VALUE: tl.constexpr,
    HEAD_BLOCK: tl.constexpr,
    VALUE_BLOCK: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
    SELECT: tl.constexpr,  # the mask contains booleans
    ADD: tl.constexpr,  # the mask contains numbers
    WHOLE: tl.constexpr,  # keys is a multiple of BLOCK_N
    ALIGN: tl.constexpr,  # strides of Q, K and V, except of their last dimension, are in units of it
):
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, HEAD_BLOCK)
    e = tl.arange(0, VALUE_BLOCK)
    column = tl.arange(0, BLOCK_N)
    in_rows = (row < queries)[:, None]

    # Triton knows that a stride is a multiple of 16, but of nothing smaller; otherwise loads would not be wide.
    stride_qb, stride_qh, stride_qm = stride_qb * ALIGN, stride_qh * ALIGN, stride_qm * ALIGN
    stride_kb, stride_kh, stride_kn = stride_kb * ALIGN, stride_kh * ALIGN, stride_kn * ALIGN
    stride_vb, stride_vh, stride_vn = stride_vb * ALIGN, stride_vh * ALIGN, stride_vn * ALIGN
    q_at = Q + batch * stride_qb + head * stride_qh + row[:, None] * stride_qm + d[None, :] * stride_qd
    q = tl.load(q_at, mask=in_rows & (d < HEAD)[None, :], other=0.0)
    k_at = K + batch * stride_kb + (head // sharing) * stride_kh + column[None, :] * stride_kn + d[:, None] * stride_kd
    v_at = V + batch * stride_vb + (head // sharing) * stride_vh + column[:, None] * stride_vn + e[None, :] * stride_vd
    mask_at = MASK + batch * stride_mb + head * stride_mh + row[:, None] * stride_mm + column[None, :] * stride_mn

    greatest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, VALUE_BLOCK), dtype=tl.float32)
    end = tl.minimum(keys, (tl.program_id(0) + 1) * BLOCK_M) if CAUSAL else keys
    for begin in range(0, end, BLOCK_N):
        n = begin + column
        if WHOLE and HEAD == HEAD_BLOCK:
            k = tl.load(k_at)
        elif WHOLE:
            k = tl.load(k_at, mask=(d < HEAD)[:, None], other=0.0)
        else:
            k = tl.load(k_at, mask=(n < keys)[None, :] & (d < HEAD)[:, None], other=0.0)
        score = tl.dot(q, k) * SCALE
        if not WHOLE:
            score = tl.where((n < keys)[None, :], score, float("-inf"))
        if CAUSAL:
            score = tl.where(n[None, :] <= row[:, None], score, float("-inf"))
        if SELECT or ADD:
            inside = in_rows & (n < keys)[None, :]
            if SELECT:
                score = tl.where(tl.load(mask_at, mask=inside, other=0) != 0, score, float("-inf"))
            else:
                score += tl.load(mask_at, mask=inside, other=0.0).to(tl.float32)
            mask_at += BLOCK_N * stride_mn
        above = tl.maximum(greatest, tl.max(score, 1))
        # A row whose keys are all masked so far has no greatest score.
        base = tl.where(above == float("-inf"), 0.0, above) if SELECT or ADD else above
        if ADD:  # the lowest number times log2(e) would be infinite
            weight = tl.exp2((score - base[:, None]) * 1.4426950408889634)
            kept = tl.exp2((greatest - base) * 1.4426950408889634)
        else:
            weight = tl.exp2(score - base[:, None])
            kept = tl.exp2(greatest - base)
        total = total * kept + tl.sum(weight, 1)
        if WHOLE and VALUE == VALUE_BLOCK:
            v = tl.load(v_at)
        elif WHOLE:
            v = tl.load(v_at, mask=(e < VALUE)[None, :], other=0.0)
        else:
            v = tl.load(v_at, mask=(n < keys)[:, None] & (e < VALUE)[None, :], other=0.0)
        acc = tl.dot(weight.to(v.dtype), v, acc * kept[:, None])
        greatest = above
        k_at += BLOCK_N * stride_kn
        v_at += BLOCK_N * stride_vn

    # As in eager mode, a row whose keys are all masked is zero.
    result = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    out_at = OUT + batch * stride_ob + head * stride_oh + row[:, None] * stride_om + e[None, :] * stride_od
    tl.store(out_at, result.to(OUT.dtype.element_ty), mask=in_rows & (e < VALUE)[None, :])


@triton_op("modelbuild::attention", mutates_args={})
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    rows: int,
    columns: int,
    warps: int,
    stages: int,
) -> Tensor:
    """Return softmax(q k^T * scale + mask) v: [batch, heads, queries, size of values], stored with the heads of a query
    side by side, and batch and queries in the order that q has.

    q     [batch, heads, queries, size]; k and v have as many heads or a divisor of it
    mask  of booleans or to add; broadcast to [batch, heads, queries, keys]
    rows, columns, warps, stages of the kernel's tile
    """
    batch, heads, queries, size = q.shape
    keys, values = v.shape[2], v.shape[3]
    if _queries_first(q):
        out = q.new_empty(queries, batch, heads, values).permute(1, 2, 0, 3)
    else:
        out = q.new_empty(batch, queries, heads, values).transpose(1, 2)
    select, add = mask is not None and mask.dtype == torch.bool, mask is not None and mask.dtype != torch.bool
    strides = (0, 0, 0, 0)
    if mask is not None:
        mask = mask.expand(batch, heads, queries, keys)
        strides = mask.stride()
    whole = isinstance(keys, int) and keys % columns == 0
    outer = [_outer_strides(each) for each in (q, k, v)]
    steps = [step for each in outer for step in each]
    align = math.gcd(8, *steps) if all(isinstance(step, int) for step in steps) else 1
    wrap_triton(attention_kernel)[(triton.cdiv(queries, rows), batch * heads)](
        q,
        k,
        v,
        q if mask is None else mask,
        out,
        scale if add else scale * _LOG2E,
        queries,
        keys,
        heads,
        heads // k.shape[1],
        *(step // align for step in outer[0]),
        q.stride(3),
        *(step // align for step in outer[1]),
        k.stride(3),
        *(step // align for step in outer[2]),
        v.stride(3),
        *strides,
        *out.stride(),
        HEAD=size,
        VALUE=values,
        HEAD_BLOCK=block_of(size),
        VALUE_BLOCK=block_of(values),
        BLOCK_M=rows,
        BLOCK_N=columns,
        CAUSAL=causal,
        SELECT=select,
        ADD=add,
        WHOLE=whole,
        ALIGN=align,
        num_warps=warps,
        num_stages=stages,
    )
    return out


def _queries_first(q: Tensor) -> bool:
    """Return whether the batch is inside the queries, as in nn.MultiheadAttention, whose next product then has rows in
    this order."""
    steps = q.stride()[0], q.stride()[2]
    return all(isinstance(each, int) for each in (q.shape[0], *steps)) and q.shape[0] > 1 and steps[0] < steps[1]


def _outer_strides(x: Tensor) -> list[int]:
    """Return all strides except the last; 0 for a dimension of one element, whose stride is arbitrary."""
    return [0 if isinstance(n, int) and n == 1 else step for n, step in zip(x.shape[:3], x.stride()[:3], strict=True)]


def block_of(size: int) -> int:
    """Return the size of a tile's side that contains a head."""
    return max(16, 1 << (size - 1).bit_length())


def tile_of(
    heads: int, queries: int, keys: int, size: int, itemsize: int, processors: int, shared_memory: int
) -> tuple[int, int, int, int]:
    """Return a tile's rows, columns, warps and stages for a number of heads (of all batches), with bytes per element
    and of shared memory.

    The rule follows times on an NVIDIA H200 (benchmarks/gpu/cuda_attention.py): the chosen tile took at most 1.4 times
    as long as the fastest of 19.
    """
    if keys <= 64 and size * itemsize <= 128:
        rows, columns, warps, stages = 32, 32, 2, 3
    elif itemsize < 4 and size <= 64 and queries >= 1024 and heads * -(-queries // 128) >= processors:
        rows, columns, warps, stages = 128, 64, 4, 3
    elif itemsize < 4:
        rows, columns, warps, stages = 64, 64, 4, 3
    elif keys > 64 and heads * -(-queries // 32) < processors:
        rows, columns, warps, stages = 16, 128, 4, 2
    else:
        rows, columns, warps, stages = 32, 64, 4, 2
    while 2 * (rows + columns * stages) * block_of(size) * itemsize > shared_memory:
        if stages > 1:
            stages -= 1
        elif columns > 16:
            columns //= 2
        else:
            rows //= 2
    return rows, columns, warps, stages
