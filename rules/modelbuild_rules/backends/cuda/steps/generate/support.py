"""Decide which nodes AOTInductor takes for the CUDA delegate."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils import _pytree as pytree

from modelbuild_rules.backend_api.steps.aten import aten_operator
from modelbuild_rules.backends.cuda.steps.generate.decompositions import decompositions, reads_size, reduces

EXCLUDED = "listed in exclude_ops"
LOWERED = "taken by an earlier backend"
CONTROL_FLOW = "control flow"
DATA_DEPENDENT = "an input or output has a size that depends on values"
NO_KERNEL = "the CUDA delegate has no kernel, and AOTInductor makes none"
DTYPE = "the CUDA delegate has no tensors of type {}"

DTYPES = frozenset(
    getattr(torch, name)
    for name in ("bfloat16", "bool", "float16", "float32", "int16", "int32", "int64", "int8", "uint8")
)

# Inductor leaves these operators to libtorch, but executorch's passes, Triton kernels or shims for CUDA support them.
_UPSTREAM = frozenset(
    {
        "aten.scaled_dot_product_attention.default",
        "aten.sort.default",
        "aten.sort.stable",
        "aten.topk.default",
    }
)


class Support(OperatorSupportBase):
    """Decides on the nodes of one program; `refused` has the reason for each node not taken, by name."""

    def __init__(
        self,
        program: ExportedProgram,
        excluded: frozenset[str],
        takes_data_dependent: bool,
        failed_nodes: Mapping[str, str],
    ) -> None:
        self._excluded = excluded
        self._takes_data_dependent = takes_data_dependent
        self.refused: dict[str, str] = dict(failed_nodes)
        for node in program.graph.nodes:
            why = self._why_not(node) if node.op == "call_function" else ""
            if why:
                self.refused.setdefault(node.name, why)

    def is_node_supported(self, submodules: Mapping[str, Any], node: torch.fx.Node) -> bool:
        return node.op == "call_function" and node.name not in self.refused

    def _why_not(self, node: torch.fx.Node) -> str:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return LOWERED if node.target.name() == "executorch_call_delegate" else CONTROL_FLOW
        if node.target is operator.getitem:
            (source,) = node.all_input_nodes
            return self._why_not(source)
        if getattr(node.target, "__name__", "") in self._excluded:
            return EXCLUDED
        values = [value for each in (node, *node.all_input_nodes) for value in _values(each)]
        if not self._takes_data_dependent and any(map(free_unbacked_symbols, values)):
            return DATA_DEPENDENT
        for value in values:
            if isinstance(value, torch.Tensor) and value.dtype not in DTYPES:
                return DTYPE.format(str(value.dtype).removeprefix("torch."))
        return _refusal(node)


def _refusal(node: torch.fx.Node) -> str:
    target = node.target if isinstance(node.target, torch._ops.OpOverload) else getattr(node.target, "_op", None)
    if not isinstance(target, torch._ops.OpOverload):
        return ""
    if not reduces(node) or not reads_size(node):
        return NO_KERNEL
    if str(target) in _UPSTREAM or aten_operator(node.target) in _made() | decompositions().keys():
        return ""
    return NO_KERNEL


@cache
def _made() -> frozenset[Any]:
    """Return the operators that Inductor compiles itself, directly or by decomposition."""
    from torch._inductor import decomposition, lowering

    made = {op for op, how in lowering.lowerings.items() if not getattr(how, "_is_fallback_handler", False)}
    return frozenset(made | set(decomposition.decompositions))


def _values(node: torch.fx.Node) -> Iterator[Any]:
    """Return the tensors and symbolic numbers that a node computes."""
    kinds = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    return (value for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, kinds))
