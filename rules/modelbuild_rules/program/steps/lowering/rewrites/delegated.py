"""Correct the states of buffers and the results of torch.cond in a program whose partitions are calls of delegates.

ExecuTorch 1.5.1 drops the initial states of buffers (executorch/exir/passes/init_mutable_pass.py). It plans the
branches of all conditions, with their results, in the same memory: the results of one condition are lost as soon as
another condition runs.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch._export.utils import get_buffer
from torch.export import ExportedProgram
from torch.fx import GraphModule

from modelbuild_rules.program.steps.lowering.rewrites.decomposition import all_nodes

_CONDITION = torch.ops.higher_order.cond


def initialize_buffers(program: ExportedProgram) -> None:
    """Keep the initial state of each buffer that the program mutates, unless it is all zeros, because arenas start with
    zeros."""
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        if node.op == "placeholder" and program.graph_signature.inputs_to_buffers.get(node.name) in mutated:
            state = get_buffer(program, node)
            if state is not None and bool(state.any()):
                node.meta["et_init_buffer"] = True


def has_conditions(program: ExportedProgram) -> bool:
    """Return whether a program, or a branch in it, has conditions."""
    return any(node.target is _CONDITION for node in all_nodes(program.graph_module))


def keep_results(program: ExportedProgram) -> None:
    """Copy the results of each condition out of the memory that all branches share."""
    for each in list(program.graph_module.modules()):
        if not isinstance(each, GraphModule):
            continue
        for node in each.graph.find_nodes(op="call_function", target=_CONDITION):
            for result in [user for user in node.users if user.target is operator.getitem]:
                _copy(each, result)
        each.recompile()


def _copy(module: GraphModule, result: Any) -> None:
    if not isinstance(result.meta.get("val"), torch.Tensor):
        return
    result.args[0].append(result)  # another condition may run between the two
    with module.graph.inserting_after(result):
        made = module.graph.call_function(exir_ops.edge.aten.clone.default, (result,))
    made.meta = {**result.meta, "val": result.meta["val"].clone()}
    result.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)
