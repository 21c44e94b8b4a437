"""Convert a program of executorch's edge dialect to the ATen program that torch_tensorrt expects.

Nodes keep their names, and only their operators change: TensorRT tensors have neither strides nor aliases.
Private names of torch are used; torch_tensorrt_private.py lists them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._export.verifier import load_verifier
from torch.export import ExportedProgram
from torch.fx.passes.shape_prop import _extract_tensor_metadata

from modelbuild_rules.backend_api.steps.aten import aten_operator
from modelbuild_rules.backends.tensorrt.steps.engine.pooling import WITH_INDICES, plain_arguments


def aten_graph(program: ExportedProgram) -> torch.fx.Graph:
    """Return a copy of the program's graph with ATen operators. Branches and loop bodies keep their operators."""
    graph = torch.fx.Graph()
    mapping: dict[Any, Any] = {}
    graph.output(graph.graph_copy(program.graph, mapping))
    output = next(iter(reversed(program.graph.nodes)))
    list(graph.nodes)[-1].meta = dict(output.meta)
    for node, copy in mapping.items():
        copy.name = node.name
        if isinstance(node.meta.get("val"), torch.Tensor):
            copy.meta["tensor_meta"] = _extract_tensor_metadata(node.meta["val"])  # read by some validators
        if node.op == "call_function":
            copy.target = _operator(node.target)
            if copy.target in WITH_INDICES:
                copy.args = plain_arguments(copy)
            if getattr(getattr(node.target, "_op", None), "namespace", "") == "dim_order_ops":
                copy.kwargs = {key: value for key, value in node.kwargs.items() if key != "dim_order"}
    return graph


def aten_program(program: ExportedProgram) -> ExportedProgram:
    """Return a program without control flow with ATen operators. It shares tensors with `program`, whose graph does not
    change."""
    return ExportedProgram(
        root=program.graph_module,
        graph=aten_graph(program),
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=program.constants,
        verifiers=[load_verifier("ATEN")],
    )


def _operator(target: Any) -> Any:
    operator = aten_operator(target)
    # torch_tensorrt decomposes an alias into the tensor itself, which torch forbids for a view.
    return torch.ops.aten.clone.default if operator is torch.ops.aten.alias.default else operator
