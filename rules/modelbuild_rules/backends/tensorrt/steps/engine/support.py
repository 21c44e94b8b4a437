"""Decide which nodes TensorRT takes, from the converter that torch_tensorrt would select for each node.

Each node of the edge program is checked as its ATen node (backend_api/steps/aten.py). If torch_tensorrt's lowering
decomposes the operator, the node is decomposed alone and each resulting operator is checked. All backends of a stack
decide on the edge program. The decision holds at compile time, since a partition is compiled from the same nodes with
the same decompositions.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils import _pytree as pytree

from modelbuild_rules.backend_api.steps.nodes import op_name
from modelbuild_rules.backend_api.steps.shapes import on_sizes, values_of
from modelbuild_rules.backends.tensorrt.steps.engine import quantization
from modelbuild_rules.backends.tensorrt.steps.engine.aten_program import aten_graph
from modelbuild_rules.backends.tensorrt.steps.engine.lowering import decompositions, forget_pending_sizes
from modelbuild_rules.backends.tensorrt.steps.engine.pooling import WITH_INDICES

NO_CONVERTER = "no converter"
REJECTED = "the converter's validator rejects it"
OUTPUT_ALLOCATOR = "its converter needs an output allocator: the result's size depends on values"
DATA_DEPENDENT = "an input or output has a size that depends on values"
EXCLUDED = "listed in exclude_ops"
COMPLEX = "complex numbers"
SCALAR = "computes with numbers that are not sizes"


class Support(OperatorSupportBase):
    """Decides on the nodes of one program; `refused` has the reason for each node not taken, by name."""

    def __init__(
        self, program: ExportedProgram, settings: Any, stored: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        """`stored` has constants by name, if the program's constants have no values."""
        from torch_tensorrt.dynamo.conversion import DYNAMO_CONVERTERS

        # The registry's settings are global, so a process compiles one program only.
        DYNAMO_CONVERTERS.set_compilation_settings(settings)
        quantization.register()
        self._constant = quantization.constants_of(program, stored or {})
        self._converters = DYNAMO_CONVERTERS
        self._settings = settings
        self._table = decompositions(settings)
        graph = aten_graph(program)
        self._aten = {node.name: node for node in graph.nodes}
        self.refused: dict[str, str] = {}
        for node in self._aten.values():
            if node.target in WITH_INDICES and [user.args[1:] for user in node.users] == [(0,)]:
                node.target = WITH_INDICES[node.target]
                node.meta["val"] = node.meta["val"][0]
        for node in program.graph.nodes:
            if node.op == "call_function":
                # In delegation.json, operators have the names of the edge dialect, such as permute_copy.
                listed = f"torch.ops.{op_name(node)}" in settings.torch_executed_ops
                why = EXCLUDED if listed else self._why_not(self._aten[node.name])
                if why:
                    self.refused[node.name] = why
        self._graph = graph
        self.leave_whole()

    def leave_whole(self) -> None:
        """Refuse nodes that must go with refused nodes: operators on quantized values, and the nodes that quantize the
        values."""
        self.refused.update(quantization.left_whole(self._graph, self.refused))

    def refuse_apart(self, partitions: list[list[torch.fx.Node]]) -> bool:
        """Refuse nodes whose int8 values would leave their partition, and return whether there are any."""
        found = quantization.apart(self._graph, partitions)
        self.refused.update(found)
        self.leave_whole()
        return bool(found)

    def is_node_supported(self, submodules: Mapping[str, Any], node: torch.fx.Node) -> bool:
        return node.op == "call_function" and node.name in self._aten and node.name not in self.refused

    def lowered_to(self, target: Any) -> list[str]:
        """Return the names of nodes that are, or decompose into, an ATen operator."""
        taken = [name for name, node in self._aten.items() if node.op == "call_function" and name not in self.refused]
        return [name for name in taken if any(each.target is target for each in self._decomposed(self._aten[name]))]

    def _why_not(self, node: torch.fx.Node) -> str:
        if node.target is operator.getitem:
            return ""
        if quantization.is_quantization(node):
            return quantization.problem(node, self._constant)
        if not isinstance(node.target, torch._ops.OpOverload) and not on_sizes(node):
            return NO_CONVERTER if _tensors(node) else SCALAR
        values = [value for each in (node, *node.all_input_nodes) for value in values_of(each)]
        if self._settings.fallback_data_dependent_ops and any(map(free_unbacked_symbols, values)):
            return OUTPUT_ALLOCATOR if self._needs_allocator(node) else DATA_DEPENDENT
        dtypes = {getattr(value, "dtype", None) for value in values}
        if not dtypes.isdisjoint(_COMPLEX):
            return COMPLEX
        unknown = [dtype for dtype in dtypes if isinstance(dtype, torch.dtype) and dtype not in _TYPES]
        if unknown:
            return f"TensorRT does not compute with {str(unknown[0]).removeprefix('torch.')}"
        try:
            decomposed = self._decomposed(node)
        except Exception as error:  # A decomposition may raise any exception for arguments that it does not support.
            return f"torch_tensorrt can't decompose it: {str(error).partition(chr(10))[0]}"
        return next(filter(None, map(self._refusal, decomposed)), "")

    def _needs_allocator(self, node: torch.fx.Node) -> bool:
        found = self._converters.get(node)
        return found is not None and bool(found[2]["requires_output_allocator"])

    def _refusal(self, node: torch.fx.Node) -> str:
        """Return why no usable converter exists for an ATen node; '' if a converter exists."""
        from torch_tensorrt.dynamo.conversion._ConverterRegistry import ConverterRegistry

        excluded = self._settings.torch_executed_ops
        if ConverterRegistry.qualified_name_or_str(node.target) in excluded:
            return EXCLUDED
        found = self._converters.get(node)
        if found is None:
            known = any(node.target in registry for registry in self._converters.registries)
            return REJECTED if known else NO_CONVERTER
        if found[2]["requires_output_allocator"] and self._settings.fallback_data_dependent_ops:
            return OUTPUT_ALLOCATOR
        return ""

    def _decomposed(self, node: torch.fx.Node) -> list[torch.fx.Node]:
        """Return the ATen nodes into which torch_tensorrt's lowering decomposes a node, or the node's own ATen node."""
        if node.target not in self._table or node.target in WITH_INDICES.values():
            return [node]
        leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.fx.Node)]
        values = [leaves[place].meta["val"] for place in places]

        def call(*given: Any) -> Any:
            filled = list(leaves)
            for place, value in zip(places, given, strict=True):
                filled[place] = value
            args, kwargs = pytree.tree_unflatten(filled, spec)
            return node.target(*args, **kwargs)

        forget_pending_sizes(values_of(node))
        with torch._guards.detect_fake_mode(values_of(node)) or torch.no_grad():
            made = make_fx(call, decomposition_table=self._table, _allow_non_fake_inputs=True)(*values)
        return [each for each in made.graph.nodes if each.op == "call_function"]


_COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
# TensorRT has uint8 and int8 as well, but few operators accept them.
_TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool)


def _tensors(node: torch.fx.Node) -> bool:
    return any(isinstance(value, torch.Tensor) for value in values_of(node))
