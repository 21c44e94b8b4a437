"""Compute operators of some modules in half precision: tensors from other operators are converted first.

Operators whose inputs were in float32 for precision stay so until the next layer. Values that depend only on integers
and buffers, such as angles of positions and masks, are computed in float32 and converted for their users.

Private names used, checked on torch 2.14.0: torch._ops.OpOverload and its _schema. Not patched.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import torch

from modelbuild_rules.backend_api.steps.quantizing import Filter

PRECISE = frozenset(
    {
        *("acos", "asin", "cdist", "cosh", "cosine_similarity", "cumprod", "cumsum", "dist", "erfinv", "exp", "exp2"),
        *("expm1", "linalg_vector_norm", "log", "log10", "log1p", "log2", "logsumexp", "norm", "pow", "prod"),
        *("reciprocal", "renorm", "rsqrt", "sinh", "softplus", "square", "std", "sum", "tan", "var", "var_mean"),
    }
)
"""Operators that stay in float32, as in torch.autocast, because their results leave the range of float16 or lose
precision. Normalizations and softmax compute in float32 and have small results, so they are excluded."""

LAYERS = frozenset({"linear", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu"})
"""Operators, in addition to convolutions and products of matrices, that are in half precision whatever they read."""

MATRICES = frozenset({"addmm", "baddbmm", "bmm", "dot", "einsum", "matmul", "mm", "mv"})


def compute_in(
    dtype: torch.dtype,
    graph: torch.fx.Graph,
    constants: Collection[torch.fx.Node],
    allowed: Filter,
    store: Callable[[torch.fx.Node, torch.dtype], bool],
) -> None:
    """Compute the allowed operators of a graph in half precision. Results of the graph keep their types.

    constants  nodes of stored tensors that are not parameters
    store      converts the stored tensor of a node, and returns whether it did
    """
    changed: set[torch.fx.Node] = set()
    wide = _Wide(constants)
    made: dict[tuple[torch.fx.Node, torch.dtype], torch.fx.Node] = {}
    for node in list(graph.nodes):
        wide.see(node)
        if node.target is operator.getitem and node.args[0] in changed:
            changed.add(node)
            node.meta["val"] = _converted(node.meta["val"], dtype)
            continue
        taken = node.op == "call_function" and allowed(node) and node not in wide and _takes(node, dtype)
        for each in node.all_input_nodes:
            if taken and _type(each) == torch.float32:
                if not store(each, dtype):
                    node.replace_input_with(each, _cast(node, each, dtype, made, each in wide.exact))
            elif not taken and each in changed:
                node.replace_input_with(each, _cast(node, each, torch.float32, made))
        if taken:
            changed.add(node)
            node.meta["rewritten"] = True
            node.meta["val"] = _converted(node.meta["val"], dtype)
            node.args = tuple(dtype if each is torch.float32 else each for each in node.args)
            node.kwargs = {name: dtype if each is torch.float32 else each for name, each in node.kwargs.items()}
    graph.eliminate_dead_code()


class _Wide:
    """The nodes that stay in float32; `exact` are the nodes that depend only on integers and buffers."""

    def __init__(self, constants: Collection[torch.fx.Node]) -> None:
        self.exact: set[torch.fx.Node] = set(constants)
        self._precise: set[torch.fx.Node] = set()

    def __contains__(self, node: torch.fx.Node) -> bool:
        return node in self.exact or node in self._precise

    def see(self, node: torch.fx.Node) -> None:
        """Decide on a node. Earlier nodes must have been decided on."""
        if node.op != "call_function":
            return
        name = _name(node)
        given = [each for each in node.all_input_nodes if any(map(_is_floating, _members(each.meta.get("val"))))]
        layer = name in LAYERS or "conv" in name
        follows = any(each in self._precise for each in given) and not (layer or name in MATRICES)
        if all(each in self.exact for each in given) and not layer:
            self.exact.add(node)
        elif name in PRECISE or follows:
            self._precise.add(node)


def _name(node: torch.fx.Node) -> str:
    """Return an operator's name without its overload, such as "linear"."""
    target = node.target
    return target._schema.name.partition("::")[2] if isinstance(target, torch._ops.OpOverload) else ""


def _is_floating(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _takes(node: torch.fx.Node, dtype: torch.dtype) -> bool:
    """Return whether an operator reads no floating-point tensors except float32 and already converted tensors, returns
    only float32, and writes to no tensor."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return False
    given = [each for each in map(_type, node.all_input_nodes) if each is not None and each.is_floating_point]
    results = [each.dtype for each in _members(node.meta.get("val")) if isinstance(each, torch.Tensor)]
    return bool(given) and set(given) <= {torch.float32, dtype} and set(results) == {torch.float32}


def _type(node: torch.fx.Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _members(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _converted(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_converted(each, dtype) for each in value)
    return value.new_empty(value.shape, dtype=dtype) if isinstance(value, torch.Tensor) else value


def limited(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor in another type. Finite numbers that the type lacks, such as -1e9 in a mask, become its greatest
    or least number: an infinity could become NaN in softmax."""
    most = torch.finfo(dtype).max
    return torch.where(value.isinf(), value, value.clamp(-most, most)).to(dtype)


def _cast(
    user: torch.fx.Node,
    node: torch.fx.Node,
    dtype: torch.dtype,
    made: dict[tuple[torch.fx.Node, torch.dtype], torch.fx.Node],
    exact: bool = False,
) -> torch.fx.Node:
    """Return the conversion of a node's result, added before its first user. `exact`: as for `limited`."""
    if (node, dtype) not in made:
        with user.graph.inserting_before(user):
            given = node
            if exact:
                most = torch.finfo(dtype).max
                infinite = user.graph.call_function(torch.ops.aten.isinf.default, (node,))
                finite = user.graph.call_function(torch.ops.aten.clamp.default, (node, -most, most))
                given = user.graph.call_function(torch.ops.aten.where.self, (infinite, node, finite))
                for made_of in (infinite, finite, given):
                    made_of.meta = {**user.meta, "val": node.meta["val"]}
                    made_of.meta.pop("rewritten", None)
                infinite.meta["val"] = _converted(node.meta["val"], torch.bool)
            cast = user.graph.call_function(torch.ops.aten.to.dtype, (given, dtype))
        cast.meta = {**user.meta, "val": _converted(node.meta["val"], dtype)}
        cast.meta.pop("rewritten", None)
        made[node, dtype] = cast
    return made[node, dtype]
