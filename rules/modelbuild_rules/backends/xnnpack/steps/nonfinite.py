"""Compute operators whose kernels in XNNPACK lose NaNs or infinities by others that keep them.

| operator | fault | becomes |
| --- | --- | --- |
| sigmoid | NaN for numbers beyond 5e26, with AVX-512 | sigmoid of clamped numbers |
| max_pool2d | ignores NaN | the same, plus a depthwise convolution with weights of 0: NaN where a pool has one |
| avg_pool2d | NaN becomes the lower bound | mean of all pixels, or a depthwise convolution with equal weights |
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.backends.xnnpack.utils.quant_utils import is_dequant
from executorch.backends.xnnpack.utils.utils import normalize_pool2d_args
from executorch.exir.dialects._ops import ops
from torch.export import ExportedProgram

from modelbuild_rules.backends.xnnpack.steps.shared_values import add_constant

edge = ops.edge.aten

WINDOWS = (3, 4, 9, 25)
"""Sizes of windows of depthwise convolutions that have a kernel. Other sizes use the kernel of the next size, which
multiplies pixels outside of the window by 0."""

_CONSTANT_BEYOND = 1000.0


def with_nonfinite_numbers(program: ExportedProgram) -> None:
    """Replace operators on floating-point numbers that lose NaNs or infinities, in place."""
    for node in list(program.graph.nodes):
        replace = _REPLACEMENTS.get(node.target) if node.op == "call_function" else None
        # Dequantized numbers are finite.
        if replace is not None and not is_dequant(node.args[0]):
            replace(program, node)
    program.graph_module.recompile()


def _clamp_before_sigmoid(program: ExportedProgram, node: torch.fx.Node) -> None:
    x: Any = node.args[0]
    if _is_float32(node):
        clamped = _call(program, node, edge.hardtanh.default, (x, -_CONSTANT_BEYOND, _CONSTANT_BEYOND), x)
        node.replace_input_with(x, clamped)


def _add_zero_or_nan(program: ExportedProgram, node: torch.fx.Node) -> None:
    if not _is_float32(node):
        return
    x: Any = node.args[0]
    kernel, stride, padding, dilation = window = normalize_pool2d_args(node, has_dilation=True)
    sizes = zip(x.meta["val"].shape[2:], node.meta["val"].shape[2:], kernel, stride, padding, dilation, strict=True)
    # Pools with ceil_mode may reach beyond the padding.
    more = [(out - 1) * s + d * (k - 1) + 1 - (size + 2 * p) for size, out, k, s, p, d in sizes]
    small = _call(program, node, edge.hardtanh.default, (x, 0.0, 1.0), x)
    if any(each > 0 for each in more):
        padded = (small, [0, max(more[1], 0), 0, max(more[0], 0)], 0.0)
        small = _call(program, node, edge.constant_pad_nd.default, padded, x)
        small.meta["val"] = torch.ops.aten.constant_pad_nd(*(x.meta["val"], *padded[1:]))
    marks = _depthwise(program, node, small, 0.0, window)
    with program.graph.inserting_after(node):
        made = program.graph.call_function(edge.add.Tensor, (node, marks))
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made, lambda user: user is not made)


def _average_by_weights(program: ExportedProgram, node: torch.fx.Node) -> None:
    x: Any = node.args[0]
    kernel, *_ = window = normalize_pool2d_args(node, has_dilation=False)
    if kernel == list(x.meta["val"].shape[2:]):
        made = _call(program, node, edge.mean.dim, (x, [2, 3], True), node)
    elif not _is_float32(node):
        return
    else:
        made = _depthwise(program, node, x, 1 / (kernel[0] * kernel[1]), window)
    node.replace_all_uses_with(made)
    program.graph.erase_node(node)


def _depthwise(program: ExportedProgram, node: torch.fx.Node, x: Any, weight: float, window: Any) -> torch.fx.Node:
    kernel, stride, padding, dilation = window
    channels, dtype = node.meta["val"].shape[1], node.meta["val"].dtype
    weights = add_constant(program, f"{node.name}_weights", torch.full((channels, 1, *kernel), weight, dtype=dtype))
    args = (x, weights, None, stride, padding, dilation, False, [0, 0], channels)
    return _call(program, node, edge.convolution.default, args, node)


def _is_float32(node: torch.fx.Node) -> bool:
    return bool(node.meta["val"].dtype == torch.float32)


def _call(program: ExportedProgram, node: torch.fx.Node, target: Any, args: Any, like: torch.fx.Node) -> torch.fx.Node:
    """Add a node before `node`, whose result has the shape of `like`."""
    with program.graph.inserting_before(node):
        made = program.graph.call_function(target, args)
    made.meta = {**node.meta, "val": like.meta["val"]}
    return made


_REPLACEMENTS = {
    edge.avg_pool2d.default: _average_by_weights,
    edge.max_pool2d.default: _add_zero_or_nan,
    edge.sigmoid.default: _clamp_before_sigmoid,
}
