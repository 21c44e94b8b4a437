"""Keep the layouts of a partition apart, which executorch's code for XNNPACK mixes.

executorch's code computes convolutions in channels-last order, and after them all operators that work in any order. It
wrongly includes softmax, which reads the last dimension. In front of a convolution with dynamic ranges it reorders the
values for all of their readers. XNNPACK computes wrong numbers if convolutions share dynamically quantized values.

Private names of executorch are used and patched temporarily; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass import ChannelsLastTaggedReshapePass
from executorch.backends.xnnpack.utils.quant_utils import is_dynamic_qdq
from executorch.exir.dialects._ops import ops

from modelbuild_rules.backends.xnnpack.steps.reordering import without_reordering

edge = ops.edge.aten


@contextmanager
def layouts_apart() -> Iterator[None]:
    """Compute softmax in row-major order, and quantize values for convolutions apart, while the context lasts."""
    call = ChannelsLastTaggedReshapePass.call
    row_major = {*ChannelsLastTaggedReshapePass.memory_sensitive_ops_nchw, edge._softmax.default}

    def called(reshape: Any, module: torch.fx.GraphModule) -> Any:
        _separate_dynamic_ranges(module.graph)
        made = call(reshape, module)
        without_reordering(made.graph_module.graph)
        return made

    with (
        patch.object(ChannelsLastTaggedReshapePass, "memory_sensitive_ops_nchw", row_major),
        patch.object(ChannelsLastTaggedReshapePass, "call", called),
    ):
        yield


def _separate_dynamic_ranges(graph: torch.fx.Graph) -> None:
    """Quantize values separately for each convolution and linear layer with dynamic ranges, in place."""
    for layer in list(graph.nodes):
        if layer.target in _ORDERS and is_dynamic_qdq(layer.args[0]) and layer.args[0].meta["val"].dim() == 4:
            layer.replace_input_with(layer.args[0], _reordered(graph, layer.args[0], _ORDERS[layer.target]))
    graph.eliminate_dead_code()


def _reordered(graph: torch.fx.Graph, values: torch.fx.Node, order: Any) -> torch.fx.Node:
    """Return the dequantized values, quantized from values in the given order."""
    x: Any = values.args[0].args[0]
    with graph.inserting_before(values):
        copy = graph.call_function(edge._to_copy.default, (x,), {"memory_format": order})
    copy.meta = dict(x.meta)
    copies = {x: copy}

    def copied(node: torch.fx.Node) -> torch.fx.Node:
        if node not in copies:
            for each in node.all_input_nodes:
                copied(each)
            with graph.inserting_before(values):
                copies[node] = graph.node_copy(node, copies.__getitem__)
        return copies[node]

    return copied(values)


_ORDERS = {edge.convolution.default: torch.channels_last, edge.linear.default: torch.contiguous_format}
