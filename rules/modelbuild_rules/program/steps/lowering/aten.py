"""A program of executorch's edge dialect as the ATen program that torch_tensorrt's lowering and converters know.

Node for node, under the same names: an edge operator becomes the ATen operator that it stands for, an operator that
copies a view (`view_copy`) the view itself, and one that speaks of dimension order the one without. TensorRT tensors
have neither strides nor aliases, so nothing changes but names.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._export.verifier import load_verifier
from torch.export import ExportedProgram
from torch.fx.passes.shape_prop import _extract_tensor_metadata

from modelbuild_rules.program.steps.lowering.pooling import WITH_INDICES, plain_arguments

aten = torch.ops.aten

_OTHERWISE = {
    # A copy may be of what has no view of that shape.
    aten.view_copy.default: aten.reshape.default,
}
_WITHOUT_ORDER = {
    "_to_dim_order_copy": aten._to_copy.default,
    "_clone_dim_order": aten.clone.default,
    "_empty_dim_order": aten.empty.memory_format,
}


def aten_operator(target: Any) -> Any:
    """The ATen operator that an edge operator stands for; what is no operator is given back."""
    operator = getattr(target, "_op", target)
    if not isinstance(operator, torch._ops.OpOverload):
        return target
    if operator in _OTHERWISE:
        return _OTHERWISE[operator]
    packet = operator._schema.name.partition("::")[2]
    if operator.namespace == "dim_order_ops":
        return _WITHOUT_ORDER.get(packet, operator)
    if torch.Tag.view_copy in operator.tags or packet.endswith("_copy"):
        view = getattr(aten, packet.removesuffix("_copy"), None) if packet.endswith("_copy") else None
        found = getattr(view, operator._overloadname, None)
        if found is not None and _is_view(found):
            return found
    return operator


def aten_program(program: ExportedProgram) -> ExportedProgram:
    """The program on ATen operators. Tensors are shared with `program`, its graph is not touched."""
    graph = torch.fx.Graph()
    mapping: dict[Any, Any] = {}
    graph.output(graph.graph_copy(program.graph, mapping))
    output = next(iter(reversed(program.graph.nodes)))
    list(graph.nodes)[-1].meta = dict(output.meta)
    for node, copy in mapping.items():
        copy.name = node.name
        if isinstance(node.meta.get("val"), torch.Tensor):
            copy.meta["tensor_meta"] = _extract_tensor_metadata(node.meta["val"])  # what some validators look at
        if node.op == "call_function":
            copy.target = aten_operator(node.target)
            if copy.target in WITH_INDICES:
                copy.args = plain_arguments(copy)
            if getattr(getattr(node.target, "_op", None), "namespace", "") == "dim_order_ops":
                copy.kwargs = {key: value for key, value in node.kwargs.items() if key != "dim_order"}
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=program.constants,
        verifiers=[load_verifier("ATEN")],
    )


def _is_view(operator: Any) -> bool:
    returned = operator._schema.returns
    return bool(returned) and any(r.alias_info is not None and not r.alias_info.is_write for r in returned)
