"""Replace operators that no backend takes and that no kernel computes as eager mode does.

An operator has a form of modelbuild (forms/), or a decomposition of torch. Nodes of an ATen program are traced with
these, and the trace replaces the node.

Private names used, checked on torch 2.14.0: torch._decomp (core_aten_decompositions, decomposition_table),
torch._dispatch.python.enable_python_dispatcher, torch._guards.detect_fake_mode, and
ShapeEnv.pending_fresh_unbacked_symbols. None is patched.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from modelbuild_rules.backend_api.steps.aten import aten_operator
from modelbuild_rules.backend_api.steps.nodes import origin
from modelbuild_rules.program.steps.lowering.rewrites.decomposition import decomposed
from modelbuild_rules.program.steps.lowering.rewrites.forms import CORRECTIONS, FORMS
from modelbuild_rules.program.steps.lowering.rewrites.inlining import inline, traced

Forms = Mapping[Any, Callable[..., Any]]


def is_wrong(node: Node) -> bool:
    """Return whether ExecuTorch's kernel computes other values than eager mode for a node of an edge program."""
    form = CORRECTIONS.get(aten_operator(node.target))
    if form is None:
        return False
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    near = pytree.tree_leaves([each.meta.get("val") for each in (node, *node.all_input_nodes)])
    # torch's forms in Python keep dynamic sizes.
    with next(each.fake_mode for each in near if hasattr(each, "fake_mode")), enable_python_dispatcher():
        return form(*args, **kwargs) is not NotImplemented


def has_form(target: Any) -> bool:
    """Return whether there is a form of an edge operator without a kernel, or a decomposition."""
    found = aten_operator(target)
    return found in FORMS or found in decomposition_table


def with_forms(program: ExportedProgram, origins: Iterable[str], operators: Iterable[Any], nested: bool) -> Any:
    """Return an equivalent program in which forms replace some operators of the edge dialect.

    origins    the nodes of the exported program that the operators were made from
    operators  their operators
    nested     true if the operators of all branches of control flow are also replaced
    """
    wanted = {aten_operator(each) for each in operators}
    forms = {
        **{each: decomposition_table[each] for each in wanted if each in decomposition_table},
        **FORMS,
        **CORRECTIONS,
    }
    names = set(origins)
    mode = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes])
    if mode is not None and mode.shape_env is not None:
        # Lowering leaves sizes that no tensor has, which tracing does not accept.
        mode.shape_env.pending_fresh_unbacked_symbols.clear()
    program = decomposed(program, {})  # without operators that change their arguments
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in list(module.graph.nodes):
            found = nested if module is not program.graph_module else (origin(node) or node.name) in names
            # The trace of an operator that makes sizes leaves unused sizes.
            if found and isinstance(node.target, torch._ops.OpOverload) and "unbacked_bindings" not in node.meta:
                _replace(program, module, node, forms)
        module.graph.eliminate_dead_code()
        module.recompile()
    program.validate()
    return program


def _replace(program: ExportedProgram, module: GraphModule, node: Node, forms: Forms) -> None:
    """Replace a node with its trace, if a form is in it. A node whose form cannot be traced stays unchanged."""
    inputs = list(node.all_input_nodes)

    def called(*values: Any) -> Any:
        given = dict(zip(inputs, values, strict=True))
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), given.__getitem__)
        return node.target(*args, **kwargs)

    try:
        trace = _with(forms, called, node, inputs) or _with({**_composed(), **forms}, called, node, inputs)
        if trace is None:
            return
        results = inline(module.graph, node, trace, inputs)
    except Exception as problem:  # exceptions of torch's decompositions, of many kinds; the operator is reported later
        print(f"{node.target} ({node.name}) has no form: {problem}")
        return
    made: list[tuple[Node, Node]] = [(node, results[0])]
    if isinstance(node.meta["val"], (list, tuple)):
        made = [(user, results[int(user.args[1])]) for user in node.users if user.target is operator.getitem]
    for old, new in made:
        old.replace_all_uses_with(new)
        if module is program.graph_module:
            program.graph_signature.replace_all_uses(old.name, new.name)


@cache
def _composed() -> Forms:
    """Return the decompositions that executorch uses, by which an operator may become an operator that has a form."""
    return dict(core_aten_decompositions())


def _with(forms: Forms, function: Callable[..., Any], node: Node, inputs: list[Node]) -> GraphModule | None:
    """Return the trace of a node's operator; None if no form is in it. Raises NotImplementedError for a trace with
    another result."""
    used: list[Any] = []

    def counted(target: Any, form: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **kwargs: Any) -> Any:
            result = form(*args, **kwargs)
            if result is not NotImplemented and (target in FORMS or target in CORRECTIONS or target not in _composed()):
                used.append(target)
            return result

        return made

    trace = traced(function, node, inputs, {target: counted(target, form) for target, form in forms.items()})
    if not used:
        return None
    results = pytree.tree_leaves(torch.fx.node.map_arg(trace.graph.output_node().args[0], lambda e: e.meta["val"]))
    if [_kind(each) for each in results] != [_kind(each) for each in pytree.tree_leaves(node.meta["val"])]:
        raise NotImplementedError("its decomposition makes tensors of another type")
    made = [each for each in trace.graph.nodes if each.op == "call_function"]
    operators = [each.target for each in made if isinstance(each.target, torch._ops.OpOverload)]
    if any(each._schema.is_mutable or each.namespace == "prims" for each in operators):
        raise NotImplementedError("its decomposition changes tensors, or has operators without kernels")
    if any(_unknown(each) for each in made):
        raise NotImplementedError("its decomposition has sizes that depend on values")
    return trace


def _kind(value: Any) -> Any:
    return (value.dtype, value.dim()) if isinstance(value, torch.Tensor) else type(value)


def _unknown(node: Node) -> bool:
    tensors = [each for each in pytree.tree_leaves(node.meta.get("val")) if isinstance(each, torch.Tensor)]
    given = [each.meta.get("val") for each in node.graph.find_nodes(op="placeholder")]
    known = set().union(*(free_unbacked_symbols(each) for each in given if each is not None))
    return any(not free_unbacked_symbols(each) <= known for each in tensors)
