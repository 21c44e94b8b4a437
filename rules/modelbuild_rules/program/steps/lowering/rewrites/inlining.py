"""Replace a node of an ATen program with equivalent operators, traced from a function.

Private names used, checked on torch 2.14.0: torch._dispatch.python.enable_python_dispatcher,
torch._subclasses.functional_tensor.dispatch_functionalize, torch.utils._pytree. None is patched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import NodeSource, NodeSourceAction
from torch.utils import _pytree as pytree

aten = torch.ops.aten

_SAME = (aten.alias.default, aten.lift_fresh_copy.default)


def traced(
    function: Callable[..., Any],
    node: Node,
    inputs: Sequence[Node],
    forms: Mapping[Any, Callable[..., Any]] | None = None,
) -> torch.fx.GraphModule:
    """Return the operators of a function, which takes the values of `inputs`, inserted instead of a node. `forms` has
    the replacements of operators in the function."""
    near = pytree.tree_leaves([each.meta.get("val") for each in (node, *node.all_input_nodes)])
    mode = next(each.fake_mode for each in near if hasattr(each, "fake_mode"))
    with mode, enable_python_dispatcher(), torch.no_grad():
        values = [each.meta["val"] for each in inputs]
        trace = make_fx(function, dict(forms or {}))(*values)
        if any(_changes(each) for each in trace.graph.nodes):
            functional: Callable[..., Any] = dispatch_functionalize(function)
            trace = make_fx(functional, dict(forms or {}))(*values)
    trace.graph.eliminate_dead_code()
    return trace


def _changes(node: Node) -> bool:
    """Return whether an operator changes one of its arguments."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def inline(graph: Graph, node: Node, trace: torch.fx.GraphModule, inputs: Sequence[Node]) -> list[Any]:
    """Insert traced operators before a node, with its origin; return their results."""
    copies: dict[Node, Any] = dict(zip(trace.graph.find_nodes(op="placeholder"), inputs, strict=True))
    with graph.inserting_before(node):
        for each in trace.graph.nodes:
            if each.target in _SAME:
                copies[each] = copies[each.args[0]]
            elif each.op == "get_attr":
                copies[each] = _number(graph, node, getattr(trace, str(each.target)))
            elif each.op == "call_function":
                copies[each] = graph.node_copy(each, copies.__getitem__)
                copies[each].meta = {**origin_of(node), "val": each.meta["val"]}
    results: Any = torch.fx.node.map_arg(trace.graph.output_node().args[0], copies.__getitem__)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def call(graph: Graph, node: Node, target: Any, *args: Any) -> Node:
    """Insert an operator with the origin of another node."""
    made = graph.call_function(target, args)
    values = [each.meta["val"] if isinstance(each, Node) else each for each in args]
    made.meta = {**origin_of(node), "val": target(*values)}
    return made


def origin_of(node: Node) -> dict[str, Any]:
    """Return the metadata that leads from a node to its place in the model."""
    kept = {key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta}
    return {**kept, "from_node": node.meta.get("from_node") or [NodeSource(node, __name__, NodeSourceAction.REPLACE)]}


def _number(graph: Graph, node: Node, value: torch.Tensor) -> Node:
    """Insert a tensor of one number. Raises NotImplementedError for a larger tensor."""
    if value.numel() != 1:
        raise NotImplementedError("its form has constants")
    made = graph.call_function(aten.full.default, (list(value.shape), value.item()), {"dtype": value.dtype})
    made.meta = {**origin_of(node), "val": value}
    return made
