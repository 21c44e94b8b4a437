"""Let all tensors of an edge program lie in row-major order.

torch.channels_last gives tensors another order in memory: copies that request it, weights that have it, and results of
convolutions with these weights. Results of linear algebra lie column by column. Most of ExecuTorch's kernels expect the
same order of all their tensors, many only row-major order. With other orders, some kernels fail when the program runs
(error 0x12), and some compute wrong values. Seen in executorch 1.5.1.

Backends choose orders inside partitions themselves, and lose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import ne
from typing import Any

import torch
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult, ExportPass
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.passes.infra.pass_base import PassResult

from modelbuild_rules.backend_api.steps.shapes import has_other_order
from modelbuild_rules.program.steps.lowering.rewrites.decomposition import all_nodes


class _RowMajorGraph(ExportPass):
    """Replaces the orders of inputs and copies, recomputes the orders of all results, and copies results to which their
    operators give another order."""

    def call(self, graph_module: GraphModule) -> PassResult:
        nodes = list(all_nodes(graph_module))
        inputs = [node for node in nodes if node.op == "placeholder" and has_other_order(node.meta.get("val"))]
        copies = [node for node in nodes if node.kwargs != _row_major(node.kwargs)]
        made = PassResult(graph_module, False)
        if inputs or copies:
            for node in inputs:
                node.meta["val"] = _empty(node.meta["val"])
            for node in copies:
                node.kwargs = _row_major(node.kwargs)
                _bypass(node)
            made = super().call(graph_module)
        others = [node for node in all_nodes(made.graph_module) if node.op == "call_function" and _is_other(node)]
        for node in others:
            _copy_after(node)
        made.graph_module.recompile()
        return PassResult(made.graph_module, made.modified or bool(others))


class _RowMajorConstants(ExportedProgramPassBase):
    """Copies the constants that have another order."""

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        stored = (exported_program.state_dict, exported_program.constants)
        if not any(has_other_order(each) for values in stored for each in values.values()):
            return ExportedProgramPassResult(exported_program, False)
        made = ExportedProgram(
            root=exported_program.graph_module,
            graph=exported_program.graph,
            graph_signature=exported_program.graph_signature,
            state_dict={name: _copied(each) for name, each in exported_program.state_dict.items()},
            range_constraints=exported_program.range_constraints,
            module_call_graph=exported_program.module_call_graph,
            constants={name: _copied(each) for name, each in exported_program.constants.items()},
            verifiers=exported_program.verifiers,
        )
        return ExportedProgramPassResult(made, True)


_COPY = ops.edge.dim_order_ops._clone_dim_order.default

ROW_MAJOR = (_RowMajorGraph(), _RowMajorConstants())
"""The passes, in this order."""


def _row_major(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operator, with row-major order instead of any other order that they name."""
    order = arguments.get("dim_order")
    return {**arguments, "dim_order": list(range(len(order)))} if order else dict(arguments)


def _bypass(copy: Node) -> None:
    """Let operators read the input of a copy, if the copy changed only the order. An output stays a copy, by another
    operator: XNNPACK's code refuses a partition of only a copy without a change."""
    source = copy.args[0]
    if not isinstance(source, Node) or source.meta["val"].dtype != copy.meta["val"].dtype:
        return
    for user in list(copy.users):
        if user.op != "output":
            user.replace_input_with(copy, source)
    if not copy.users:
        copy.graph.erase_node(copy)
    else:
        copy.target, copy.kwargs = _COPY, {"dim_order": copy.kwargs["dim_order"]}


def _is_other(node: Node) -> bool:
    """Return whether a node's result certainly lies in another order."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and any(
        map(statically_known_true, map(ne, value.stride(), _empty(value).stride()))
    )


def _copy_after(node: Node) -> None:
    value = _empty(node.meta["val"])
    with node.graph.inserting_after(node):
        copy = node.graph.call_function(_COPY, (), {"dim_order": list(range(value.dim()))})
    node.replace_all_uses_with(copy)
    copy.args, copy.meta = (node,), {**node.meta, "val": value}


def _empty(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _copied(value: Any) -> Any:
    if not has_other_order(value):
        return value
    copied = value.detach().clone(memory_format=torch.contiguous_format)
    return torch.nn.Parameter(copied, value.requires_grad) if isinstance(value, torch.nn.Parameter) else copied
