"""Compute operators of some modules in half precision: tensors from other operators are converted before them.

Private names used, checked on torch 2.14.0: torch._ops.OpOverload and its _schema. Not patched.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

import torch

from modelbuild_rules.quantization.steps.quantizing import Filter, Quantizing


class _Half(Quantizing):
    def rewrite(
        self, attributes: Mapping[str, Any], module: torch.fx.GraphModule, mutable: Collection[str], allowed: Filter
    ) -> None:
        dtype = getattr(torch, attributes["dtype"])
        changed: set[torch.fx.Node] = set()
        made: dict[tuple[torch.fx.Node, torch.dtype], torch.fx.Node] = {}
        for node in list(module.graph.nodes):
            if node.target is operator.getitem and node.args[0] in changed:
                changed.add(node)
                node.meta["val"] = _converted(node.meta["val"], dtype)
                continue
            taken = node.op == "call_function" and allowed(node) and _takes(node, dtype)
            for each in node.all_input_nodes:
                if taken and _type(each) == torch.float32:
                    if not _store(module, each, dtype, mutable):
                        node.replace_input_with(each, _cast(module, node, each, dtype, made))
                elif not taken and each in changed:
                    node.replace_input_with(each, _cast(module, node, each, torch.float32, made))
            if taken:
                changed.add(node)
                node.meta["rewritten"] = True
                node.meta["val"] = _converted(node.meta["val"], dtype)
                node.args = tuple(dtype if each is torch.float32 else each for each in node.args)
                node.kwargs = {name: dtype if each is torch.float32 else each for name, each in node.kwargs.items()}
        module.graph.eliminate_dead_code()
        module.recompile()


def _takes(node: torch.fx.Node, dtype: torch.dtype) -> bool:
    """Return whether an operator reads no floating-point tensors but float32 and those changed before, returns float32
    alone, and writes to no tensor."""
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


def _store(module: torch.fx.GraphModule, node: torch.fx.Node, dtype: torch.dtype, mutable: Collection[str]) -> bool:
    """Convert a parameter or buffer that one operator reads and none writes to. Return whether it is one."""
    if node.op != "get_attr" or len(node.users) != 1 or node.target in mutable:
        return False
    owner, _, leaf = str(node.target).rpartition(".")
    parent = module.get_submodule(owner)
    value = getattr(parent, leaf).detach().to(dtype)
    if leaf in dict(parent.named_parameters(recurse=False)):
        setattr(parent, leaf, torch.nn.Parameter(value, requires_grad=False))
    else:
        setattr(parent, leaf, value)
    node.meta["val"] = _converted(node.meta["val"], dtype)
    return True


def _cast(
    module: torch.fx.GraphModule,
    user: torch.fx.Node,
    node: torch.fx.Node,
    dtype: torch.dtype,
    made: dict[tuple[torch.fx.Node, torch.dtype], torch.fx.Node],
) -> torch.fx.Node:
    """Return the conversion of a node's result, added before its first user."""
    if (node, dtype) not in made:
        with module.graph.inserting_before(user):
            cast = module.graph.call_function(torch.ops.aten.to.dtype, (node, dtype))
        cast.meta = {**user.meta, "val": _converted(node.meta["val"], dtype)}
        cast.meta.pop("rewritten", None)
        made[node, dtype] = cast
    return made[node, dtype]


QUANTIZING = _Half()
