"""Find the limits of a comparison of an exported program's results."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Comparison

JUMPS = frozenset(
    {
        *("_unique2", "ceil", "floor", "floor_divide", "fmod", "frac", "heaviside", "mode", "remainder", "round"),
        *("sign", "trunc", "unique_consecutive", "unique_dim"),
    }
)
"""Operators whose results jump when their inputs change by a rounding error. Operators that return integers or booleans
for floating-point numbers (argmax, nms, comparisons, the indices of topk and sort) jump too, and are not listed."""

_QUANTIZED = ("quantize_per_tensor", "quantize_per_channel", "quantize_affine", "choose_qparams", "quantize_per_token")

_COARSE = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def comparison(program: ExportedProgram) -> Comparison:
    """Return the limits of a comparison of a program's results."""
    chosen: set[torch.fx.Node] = set()
    computing = 0
    quantized = False
    dtypes: set[Any] = set()
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        computing += 1
        name = _name(node.target)
        quantized = quantized or name.startswith(_QUANTIZED)
        values = [each for each in pytree.tree_leaves(node.meta.get("val")) if isinstance(each, torch.Tensor)]
        dtypes |= {each.dtype for each in values}
        if any(each in chosen for each in node.all_input_nodes) or _jumps(node, name):
            chosen.add(node)
    outputs = program.graph.output_node().args[0]
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    users = [each for each, kind in zip(outputs, kinds, strict=True) if kind == OutputKind.USER_OUTPUT]
    least = next((dtype for dtype in _COARSE if dtype in dtypes), torch.float32)
    return {
        "operators": computing,
        "precision": str(least).removeprefix("torch."),
        "quantized": quantized,
        "choices": [each in chosen for each in users],
    }


def _name(target: Any) -> str:
    schema = getattr(target, "_schema", None)
    return str(schema.name).partition("::")[2] if schema is not None else ""


def _jumps(node: torch.fx.Node, name: str) -> bool:
    """Return whether a node's result jumps. Results computed from integers alone have no rounding errors."""
    source = node.args[0] if node.target is operator.getitem else node
    given = [each.meta.get("val") for each in getattr(source, "all_input_nodes", ())]
    if not any(isinstance(each, torch.Tensor) and each.is_floating_point() for each in given):
        return False
    value = node.meta.get("val")
    rounds = not isinstance(value, torch.Tensor) or not value.is_floating_point()
    return name in JUMPS or (rounds and not isinstance(value, (list, tuple)))
