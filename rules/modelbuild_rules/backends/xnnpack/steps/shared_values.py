"""Give each reader of a constant, and of a dequantized value, its own copy.

executorch's code for XNNPACK has one value for a constant. The value has the layout and type that its first reader
needs, a buffer that is freed after a reader has packed it, and a name from which fused weights get their names. So a
second reader computes with wrong numbers, reads freed memory, or cannot be compiled. The code also reorders a
dequantized value for all readers if one reader needs another order. Copies cost nothing, because a program contains
equal contents once.

Private names of executorch are used; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from executorch.backends.xnnpack.utils.quant_utils import is_dequant, is_dynamic_qdq
from executorch.backends.xnnpack.utils.utils import get_param_tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind


def constants(program: ExportedProgram) -> set[str]:
    """Return the names of the nodes that are constants."""
    found = program.graph_signature
    kinds = found.inputs_to_parameters, found.inputs_to_buffers, found.inputs_to_lifted_tensor_constants
    return {name for kind in kinds for name in kind}


def add_constant(program: ExportedProgram, name: str, data: torch.Tensor) -> torch.fx.Node:
    """Add a constant before the other inputs of a program, and return its node. The name must be new."""
    with program.graph.inserting_before(next(iter(program.graph.nodes))):
        return create_constant_placeholder(program, program.graph, name, InputKind.PARAMETER, data)


def unshare_values(program: ExportedProgram) -> None:
    """Give each reader of a constant, and of a dequantized value with a static range, its own copy, in place."""
    known, numbers = constants(program), count(1)
    for node in list(program.graph.nodes):
        if is_dequant(node) and not is_dynamic_qdq(node):
            for user in list(node.users)[1:]:
                with program.graph.inserting_after(node):
                    user.replace_input_with(node, program.graph.node_copy(node))
    read: set[torch.fx.Node] = set()

    def own(node: torch.fx.Node) -> Any:
        if node.name not in known or node not in read:
            read.add(node)
            return node
        data = get_param_tensor(program, node)
        assert data is not None
        made = add_constant(program, f"{node.name}_copy_{next(numbers)}", data.detach())
        made.meta = {**node.meta, **made.meta}
        return made

    for node in program.graph.nodes:
        if node.op == "call_function":
            node.args = torch.fx.node.map_arg(node.args, own)
    program.graph_module.recompile()
