"""Rewrite poolings to the forms with a torch_tensorrt converter: of batches; maxima rounded down, and not dilated."""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten

_POOLING = {aten.max_pool1d.default: 1, aten.max_pool2d.default: 2, aten.max_pool3d.default: 3}
_MEANS = {aten.avg_pool1d.default: 1, aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}
WITH_INDICES = {
    aten.max_pool2d_with_indices.default: aten.max_pool2d.default,
    aten.max_pool3d_with_indices.default: aten.max_pool3d.default,
}
"""The replacements of torch_tensorrt's pass replace_max_pool_with_indices for poolings with unused indices."""


def round_down(module: torch.fx.GraphModule) -> None:
    """Pad the input of max poolings with ceil_mode with -inf, so that rounding down gives the same output size.

    Inputs of unknown size are left as they are.
    """
    for node in list(module.graph.nodes):
        if node.target in _POOLING and node.args[5:] == (True,):
            missing = _missing(node, _POOLING[node.target])
            if missing is None:
                continue
            node.args = node.args[:5]
            if any(missing):
                _pad(module.graph, node, missing)
    module.recompile()


def in_batches(module: torch.fx.GraphModule) -> None:
    """Give poolings of one image without a batch dimension a batch of one."""
    for node in list(module.graph.nodes):
        dimensions = {**_POOLING, **_MEANS}.get(node.target)
        if dimensions is None or node.args[0].meta["val"].dim() != dimensions + 1:
            continue
        image, result = node.args[0], node.meta["val"]
        with module.graph.inserting_before(node):
            batch = module.graph.call_function(aten.unsqueeze.default, (image, 0))
        with module.graph.inserting_after(node):
            whole = module.graph.call_function(aten.squeeze.dims, (node, [0]))
        node.replace_all_uses_with(whole)
        node.replace_input_with(image, batch)
        whole.args = (node, [0])
        batch.meta = {**node.meta, "val": image.meta["val"].unsqueeze(0)}
        whole.meta = {**node.meta}
        node.meta = {**node.meta, "val": result.unsqueeze(0)}
    module.recompile()


def _missing(node: torch.fx.Node, dimensions: int) -> list[int] | None:
    """Return the number of elements that windows read past each dimension's padded end; None if unknown."""
    value = node.args[0].meta["val"]
    sizes, results = value.shape[-dimensions:], node.meta["val"].shape[-dimensions:]
    if not value.dtype.is_floating_point or not all(isinstance(size, int) for size in (*sizes, *results)):
        return None
    kernel, stride, padding, dilation = (_each(node.args[i], dimensions) for i in range(1, 5))
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    return [
        max(0, (result - 1) * step + span - size - 2 * border)
        for result, step, span, size, border in zip(results, stride or kernel, spans, sizes, padding, strict=True)
    ]


def _each(value: Any, dimensions: int) -> list[int]:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * dimensions if len(values) == 1 else values


def _pad(graph: torch.fx.Graph, node: torch.fx.Node, missing: list[int]) -> None:
    source = node.args[0]
    widths = [width for size in reversed(missing) for width in (0, size)]
    with graph.inserting_before(node):
        padded = graph.call_function(aten.constant_pad_nd.default, (source, widths, float("-inf")))
    padded.meta = {**node.meta, "val": aten.constant_pad_nd.default(source.meta["val"], widths, float("-inf"))}
    node.replace_input_with(source, padded)


def plain_arguments(node: torch.fx.Node) -> tuple[Any, ...]:
    """Return a pooling's arguments, without a dilation of 1 in each dimension, which the converter's validator
    rejects."""
    dilation, *mode = node.args[4:] or (1,)
    return tuple(node.args) if any(mode) or set(_each(dilation, 3)) != {1} else tuple(node.args[:4])
