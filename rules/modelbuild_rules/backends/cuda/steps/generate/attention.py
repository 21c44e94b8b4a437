"""Replace attention in a partition with one kernel, and the copies that form its inputs and outputs with views."""

from __future__ import annotations

import operator
from typing import Any

import torch

from modelbuild_rules.backend_api.steps.aten import aten_operator
from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu

aten = torch.ops.aten


def fuse_attention(program: Any, gpu: Gpu) -> None:
    """Replace each scaled_dot_product_attention of a partition (an edge ExportedProgram) that the kernel can compute.

    The kernel reads any strides, so rearranged inputs are not copied. Attention that the kernel cannot compute becomes
    ATen's operator, which Inductor decomposes; upstream would replace some of it with its own kernel.
    """
    graph = program.graph_module.graph
    fused = set()
    for node in list(graph.nodes):
        if _operator(node) is not aten.scaled_dot_product_attention.default:
            continue
        given = _arguments(node)
        if given is None:
            node.target = aten.scaled_dot_product_attention.default
            continue
        with graph.inserting_before(node):
            made = graph.call_function(torch.ops.modelbuild.attention.default, (*given, *_tile(given, gpu)))
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        program.graph_signature.replace_all_uses(node.name, made.name)
        graph.erase_node(node)
        fused.add(made)
        for user in made.users:
            if _rearranges(user):
                user.target = aten_operator(user.target)
    for node in reversed(list(graph.nodes)) if fused else ():
        if not node.users or not fused.issuperset(node.users):
            continue
        if _copies(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif _rearranges(node):
            if split := _split_heads(graph, node):
                fused.update(split)
                continue
            node.target = aten_operator(node.target)
            fused.add(node)
        elif node.target is operator.getitem:
            fused.add(node)
    program.graph_module.recompile()


def _split_heads(graph: Any, node: Any) -> list[Any]:
    """Replace a chain of nn.MultiheadAttention that ends with `node` with two operators, which need no copy; return
    them.

    The chain merges the batch and the heads, [queries, batch, heads * size] -> [queries, batch * heads, size] -> [batch
    * heads, queries, size] -> [batch, heads, queries, size]. In the product's output, these dimensions are not adjacent
    if the batch is more than 1.
    """
    if _operator(node) is not aten.view_copy.default or len(node.args[1]) != 4:
        return []
    exchanged = node.args[0]
    if _operator(exchanged) is not aten.permute_copy.default or list(exchanged.args[1]) != [1, 0, 2]:
        return []
    merged = exchanged.args[0]
    if _operator(merged) is not aten.view_copy.default:
        return []
    given = merged.args[0]
    batch, heads, queries, size = node.meta["val"].shape
    if merged.meta["val"].shape != (queries, batch * heads, size):
        return []
    if given.meta["val"].shape != (queries, batch, heads * size):
        return []
    sizes = [node.args[1][n] for n in (2, 0, 1, 3)]
    with graph.inserting_before(node):
        split = graph.call_function(aten.reshape.default, (given, sizes))
        made = graph.call_function(aten.permute.default, (split, [1, 2, 0, 3]))
    split.meta["val"] = given.meta["val"].reshape(queries, batch, heads, size)
    made.meta["val"] = split.meta["val"].permute(1, 2, 0, 3)
    node.replace_all_uses_with(made)
    for each in (node, exchanged, merged):
        if not each.users:
            graph.erase_node(each)
    return [split, made]


def _operator(node: Any) -> Any:
    return getattr(node.target, "_op", None)


def _rearranges(node: Any) -> bool:
    """Return whether a node's result can be a view of its input."""
    return torch.Tag.view_copy in getattr(_operator(node), "tags", ())


def _copies(node: Any) -> bool:
    return str(getattr(_operator(node), "_schema", "")).startswith("dim_order_ops::_clone_dim_order(")


def _arguments(node: Any) -> tuple[Any, ...] | None:
    """Return q, k, v, mask, causal and scale; None if the kernel cannot compute the node."""
    from modelbuild_rules.backends.cuda.steps.generate.lowerings.attention import MAX_HEAD

    defaults: tuple[Any, ...] = (None, 0.0, False)
    q, k, v, mask, dropout, causal = tuple(node.args) + defaults[len(node.args) - 3 :]
    tensors = queries, keys, values = [each.meta["val"] for each in (q, k, v)]
    if any(each.dim() != 4 or each.dtype != queries.dtype for each in tensors) or dropout:
        return None
    if queries.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return None
    sizes = (*queries.shape[1::2], *keys.shape[1::2], *values.shape[1::2])
    if not all(isinstance(each, int) for each in sizes) or max(sizes[1::2]) > MAX_HEAD:
        return None
    heads, size, shared, *_ = sizes
    if heads % shared or shared != values.shape[1] or queries.shape[0] != keys.shape[0]:
        return None
    scale = node.kwargs.get("scale")
    return q, k, v, mask, bool(causal), size**-0.5 if scale is None else float(scale)


def _tile(given: tuple[Any, ...], gpu: Gpu) -> tuple[int, int, int, int]:
    from modelbuild_rules.backends.cuda.steps.generate.lowerings.attention import tile_of

    q, k, v = (each.meta["val"] for each in given[:3])
    batch, heads, queries, size = (_hint(each) for each in q.shape)
    widest = max(size, int(v.shape[3]))
    return tile_of(
        batch * heads, queries, _hint(k.shape[2]), widest, q.dtype.itemsize, gpu.processors, gpu.shared_memory
    )


def _hint(size: Any) -> int:
    """Return a size; for a dynamic size, the size in the example inputs."""
    return size if isinstance(size, int) else int(size.node.hint)
