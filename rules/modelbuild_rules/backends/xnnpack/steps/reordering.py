"""Replace views, permutations and changes of layout that together leave all values in place by one view.

Between a convolution, which XNNPACK computes in channels-last order, and a linear layer or a normalization of channels,
a model permutes its tensor to channels last itself: two transpositions that cancel each other, on both sides.

Private names of executorch are used; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass import ChannelsLastTaggedReshapePass
from executorch.backends.xnnpack.utils.quant_utils import is_dequant
from executorch.exir.dialects._ops import ops
from torch import Tensor
from torch.fx import Graph, Node

edge = ops.edge.aten

_TAG = ChannelsLastTaggedReshapePass.XNN_NHWC_NODE


def without_reordering(graph: Graph) -> None:
    """Replace these nodes of a graph in which executorch's code for XNNPACK has chosen each node's layout, in place."""
    for node in list(graph.nodes):
        source = _same_values(node)
        if source is not None:
            with graph.inserting_before(node):
                made = graph.call_function(edge.view_copy.default, (source, list(node.meta["val"].shape)))
            made.meta = dict(node.meta)
            if not _is_channels_last(node):
                made.meta.pop(_TAG, None)  # executorch's code asks for the tag, not for its value
            node.replace_all_uses_with(made)
    graph.eliminate_dead_code()


def _same_values(node: Node) -> Node | None:
    """Return the farthest node whose values a node has in the same places of memory, after two or more nodes that only
    move values, one of which is no view; None if there is none."""
    path: list[Node] = []
    found = None
    for each in _moving(node):
        path.insert(0, each)
        source = each.args[0]
        moved = len(path) > 1 and any(step.target != edge.view_copy.default for step in path)
        if moved and not is_dequant(source) and _keeps_places(source, path):
            found = source
    return found


def _moving(node: Node) -> Iterator[Node]:
    """Yield a node and those before it, as far as they only move the values of tensors of known sizes."""
    while node.target in (edge.permute_copy.default, edge.view_copy.default) or _is_change_of_layout(node):
        shapes = (*node.meta["val"].shape, *node.args[0].meta["val"].shape)
        if not all(isinstance(size, int) for size in shapes):
            return
        yield node
        node = node.args[0]


def _is_change_of_layout(node: Node) -> bool:
    return node.target == edge._to_copy.default and node.kwargs.keys() == {"memory_format"}


def _keeps_places(source: Node, path: list[Node]) -> bool:
    """Return whether the values of a node are in the same places of memory after a path of nodes from it."""
    values = source.meta["val"]
    places = torch.arange(values.numel(), dtype=torch.int32)
    x = _as_seen(places, values.shape, _is_channels_last(source))
    for node in path:
        if node.target == edge.permute_copy.default:
            x = x.permute(node.args[1])
        elif node.target == edge.view_copy.default:
            x = x.reshape(node.meta["val"].shape)
    if _is_channels_last(path[-1]):
        x = x.permute(0, 2, 3, 1)
    return torch.equal(x.reshape(-1), places)


def _as_seen(memory: Tensor, shape: torch.Size, channels_last: bool) -> Tensor:
    """Return values in memory as a tensor of a shape, [N, C, H, W] for channels last."""
    if not channels_last:
        return memory.view(shape)
    batch, channels, rows, columns = shape
    return memory.view(batch, rows, columns, channels).permute(0, 3, 1, 2)


def _is_channels_last(node: Node) -> bool:
    return bool(node.meta.get(_TAG, False))
