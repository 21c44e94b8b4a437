"""Compute a partition's float32 operators in half precision, with the exceptions of the quantization recipe `half`.

Networks are strongly typed, so casts in the graph decide the type of each layer. Operators on 8-bit values keep
float32, in which TensorRT dequantizes. The results of the partition keep their types.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument

from modelbuild_rules.backend_api.steps.half_precision import compute_in, limited
from modelbuild_rules.backend_api.steps.quantized import quantized
from modelbuild_rules.backends.tensorrt.steps.engine.quantization import is_quantization

HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""The values of `precision` for which a partition is changed."""


def in_half_precision(program: ExportedProgram, dtype: torch.dtype) -> ExportedProgram:
    """Return a program of ATen operators that computes in half precision. The graph of `program` is a copy, which
    changes; its tensors do not."""
    graph = program.graph
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    inputs = {node: specs[node.name] for node in graph.find_nodes(op="placeholder")}
    stored = {**program.state_dict}, {**program.constants}
    whole = quantized(graph)

    def allowed(node: torch.fx.Node) -> bool:
        return node.name not in whole and not is_quantization(node)

    def store(node: torch.fx.Node, dtype: torch.dtype) -> bool:
        name = str(inputs[node].target) if node in inputs else ""
        kept = next((each for each in stored if name in each), None)
        if kept is None or len(node.users) != 1:
            return False
        kept[name] = limited(kept[name].detach(), dtype)
        if inputs[node].kind == InputKind.PARAMETER:
            kept[name] = torch.nn.Parameter(kept[name], requires_grad=False)
        node.meta["val"] = node.meta["val"].to(dtype)
        return True

    constants = {node for node, spec in inputs.items() if spec.kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR)}
    compute_in(dtype, graph, constants, allowed, store)
    results = graph.output_node().args[0]
    assert isinstance(results, Iterable)
    signature = replace(
        program.graph_signature,
        output_specs=[
            replace(spec, arg=TensorArgument(node.name)) if isinstance(spec.arg, TensorArgument) else spec
            for spec, node in zip(program.graph_signature.output_specs, results, strict=True)
        ],
    )
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=signature,
        state_dict=stored[0],
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=stored[1],
        verifiers=program.verifiers,
    )


def computes_in_float32(node: torch.fx.Node) -> bool:
    """Return whether a result of a node is float32."""
    values = node.meta.get("val")
    given = values if isinstance(values, (list, tuple)) else (values,)
    return any(getattr(each, "dtype", None) == torch.float32 for each in given)
