"""Copy the results of torch.cond out of the memory that all branches of a program have in common.

ExecuTorch 1.5.1 plans the branches of each condition in the same memory, and their results with it: those of one
condition are lost as soon as another one runs.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch.fx import GraphModule


def keep_results(module: GraphModule) -> None:
    """Copy the results of each condition in a lowered graph module, and in the branches in it."""
    for each in list(module.modules()):
        if not isinstance(each, GraphModule):
            continue
        for node in each.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond):
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
