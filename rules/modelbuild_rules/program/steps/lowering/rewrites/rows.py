"""Let torch multiply all rows of an input by a matrix at once.

torch decomposes a linear layer, or a product with a matrix, to one product of all rows if the input's dimensions before
the last can be viewed as one dimension. Otherwise (an input with exchanged dimensions, as in
torch.nn.MultiheadAttention) it repeats the matrix for each index of the first dimension, and executorch stores the
copies: 700 MB for each layer of a ViT-B with 8 images.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

aten = torch.ops.aten

_PRODUCTS = (aten.linear.default, aten.matmul.default)


def has_separate_rows(program: ExportedProgram) -> bool:
    """Return whether an ATen program multiplies rows that cannot be viewed as one matrix."""
    return any(map(_concerned, program.graph.nodes))


def join_rows(program: ExportedProgram, kept: Collection[Any]) -> ExportedProgram:
    """Copy inputs of an ATen program's products, so that their rows are consecutive; `kept` are operators that stay
    unchanged. Inputs with sizes that depend on values are not copied. Return the program, which is changed."""
    for node in program.graph.nodes:
        if node.target not in kept and _concerned(node):
            x = node.args[0]
            with program.graph.inserting_before(node):
                options = {"memory_format": torch.contiguous_format}
                copied = program.graph.call_function(aten.clone.default, (x,), options)
            copied.meta = dict(node.meta)
            copied.meta["val"] = x.meta["val"].clone(**options)
            node.update_arg(0, copied)
    program.graph_module.recompile()
    return program


def _concerned(node: Node) -> bool:
    return node.target in _PRODUCTS and node.args[1].meta["val"].dim() == 2 and _separate(node.args[0].meta["val"])


def _separate(x: Tensor) -> bool:
    """Return whether the dimensions of a tensor before the last cannot be viewed as one."""
    if x.dim() < 3 or free_unbacked_symbols(x):
        return False
    return any(x.stride(d) != x.stride(d + 1) * x.shape[d + 1] for d in range(x.dim() - 2))
