"""Give batch normalizations without weights explicit ones.

executorch's code for XNNPACK turns a batch normalization into a convolution, and names the convolution's weights after
those of the normalization. Without weights all have the same name, and the second would compute with the numbers of the
first, or fail. Checked on executorch 1.4.1.
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind


def with_weights(program: ExportedProgram) -> None:
    """Add weights of 1 and biases of 0 to the batch normalizations of an ATen program that lack them, in place."""
    changed = False
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.batch_norm.default):
        given, mean = node.args[1:3], node.args[3]
        if given[0] is None and isinstance(mean, torch.fx.Node) and mean.op == "placeholder":
            ones, zeros = _constant(program, node, "weight", 1.0), _constant(program, node, "bias", 0.0)
            node.args = (node.args[0], ones, zeros if given[1] is None else given[1], *node.args[3:])
            changed = True
    if changed:
        program.graph_module.recompile()
        program.validate()


def _constant(program: ExportedProgram, node: torch.fx.Node, name: str, value: float) -> torch.fx.Node:
    mean: Any = node.args[3]
    data = torch.full(mean.meta["val"].shape, value, dtype=mean.meta["val"].dtype)
    with program.graph.inserting_before(mean):
        return create_constant_placeholder(
            program, program.graph, f"{node.name}_added_{name}", InputKind.PARAMETER, data
        )
