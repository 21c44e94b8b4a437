"""Compute batch normalizations by the convolution or linear layer before them, or as products and sums.

executorch's own code makes a convolution of one tap, whose kernel in XNNPACK also multiplies the next two pixels by
zeros, so a NaN spreads. It fails behind a transposed convolution with groups, and folds the normalization of a
dimension into a linear layer that computes another dimension.

Private names of executorch are used; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.backends.xnnpack.utils.utils import get_param_tensor
from executorch.exir.dialects._ops import ops
from torch import Tensor
from torch.export import ExportedProgram

from modelbuild_rules.backends.xnnpack.steps.shared_values import add_constant, constants

edge = ops.edge.aten


def without_norms(program: ExportedProgram) -> None:
    """Replace the batch normalizations of a partition, in place. Each reader of a constant must have its own copy."""
    known = constants(program)
    for node in list(program.graph.nodes):
        if node.target == edge._native_batch_norm_legit_no_training.default:
            x, weight, bias, mean, variance, _, epsilon = node.args
            scale = torch.rsqrt(_numbers(program, variance).double() + epsilon)
            scale = scale if weight is None else scale * _numbers(program, weight)
            shift = -_numbers(program, mean) * scale
            shift = shift if bias is None else shift + _numbers(program, bias)
            made = _folded(program, x, scale, shift) if _folds(x, known) else _computed(program, node, scale, shift)
            for user in list(node.users):  # getitems of the result
                user.replace_all_uses_with(made)
                program.graph.erase_node(user)
            program.graph.erase_node(node)
    program.graph_module.recompile()


def _numbers(program: ExportedProgram, node: torch.fx.Node) -> Tensor:
    found = get_param_tensor(program, node)
    assert found is not None
    return found.detach()


def _folds(x: torch.fx.Node, known: set[str]) -> bool:
    """Return whether the scales of a normalization of `x` can be folded into the weights from which `x` is computed."""
    if len(x.users) > 1 or x.op != "call_function":
        return False
    if x.target == edge.linear.default and x.meta["val"].dim() != 2:
        return False
    layers = (edge.convolution.default, edge.linear.default)
    return x.target in layers and all(each.name in known for each in x.all_input_nodes[1:])


def _folded(program: ExportedProgram, layer: torch.fx.Node, scale: Tensor, shift: Tensor) -> torch.fx.Node:
    x, weight, *rest = layer.args
    bias: Any = rest[0] if rest else None
    old = _numbers(program, weight)
    groups = rest[6] if layer.target == edge.convolution.default and rest[4] else 1
    if layer.target == edge.convolution.default and rest[4]:  # transposed: [input, output of a group, ...]
        by_output = scale.reshape(groups, 1, -1, *[1] * (old.dim() - 2))
        new = (old.reshape(groups, -1, *old.shape[1:]) * by_output).reshape(old.shape)
    else:
        new = old * scale.reshape(-1, *[1] * (old.dim() - 1))
    if bias is not None:
        shift = shift + _numbers(program, bias) * scale
    made = [
        add_constant(program, f"{layer.name}_normalized_{name}", data.to(old.dtype))
        for name, data in (("weight", new), ("bias", shift))
    ]
    layer.args = (x, *made, *rest[1:])
    return layer


def _computed(program: ExportedProgram, norm: torch.fx.Node, scale: Tensor, shift: Tensor) -> torch.fx.Node:
    x: Any = norm.args[0]
    values = x.meta["val"]
    shape = [-1, *[1] * (values.dim() - 2)] if values.dim() < 4 else [1, -1, 1, 1]
    found = x
    for name, target, data in (("scale", edge.mul.Tensor, scale), ("shift", edge.add.Tensor, shift)):
        constant = add_constant(program, f"{norm.name}_{name}", data.reshape(shape).to(values.dtype))
        with program.graph.inserting_before(norm):
            found = program.graph.call_function(target, (found, constant))
        found.meta = {**norm.meta, "val": values}
    return found
