"""Find changes in place of a tensor that is neither the program's own nor a buffer, but an input, a parameter or a
tensor in a plain attribute. A program has no output for the tensor, so the change would be lost.

Private names used, checked on torch 2.14.0: OpOverload._schema, UntypedStorage._cdata, and the name of the module
torch._functorch.predispatch. None is patched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

aten = torch.ops.aten

# Operators that change running statistics without stating it in their schemas, with the places of the statistics and of
# the flag.
_STATISTICS: Mapping[Any, tuple[Sequence[int], int]] = {
    aten.batch_norm.default: ((3, 4), 5),
    aten.instance_norm.default: ((3, 4), 5),
    aten.native_batch_norm.default: ((3, 4), 5),
}


def without_vmap(program: ExportedProgram) -> ExportedProgram:
    """Return a program without the functions that torch.vmap leaves in a program; in it, changes in place are
    outputs."""
    calls = (node.target for node in program.graph.nodes if node.op == "call_function")
    if not any(getattr(target, "__module__", "") == "torch._functorch.predispatch" for target in calls):
        return program
    return program.run_decompositions({})


def changed_tensor(program: ExportedProgram, inputs: Sequence[str]) -> tuple[Node, str] | None:
    """Return the first node that changes a tensor in place which is not the program's own, and the problem; None if
    there is none. `inputs` are the names of the program's inputs."""
    names = dict(zip(program.graph_signature.user_inputs, inputs, strict=True))
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs if hasattr(spec.arg, "name")}
    kept = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    by_target = {spec.target or spec.arg.name: spec for spec in specs.values()}
    for output in program.graph_signature.output_specs:
        if output.kind in (OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION):
            made = next(node for node in program.graph.nodes if node.name == output.arg.name)
            return made, _problem(by_target[output.target], names)
    # The memory of constants differs from the memory of their copies in the trace.
    shown = {name for name, spec in specs.items() if spec.kind != InputKind.CONSTANT_TENSOR}
    owners = {_storage(node): specs[name] for name, node in kept.items() if name in shown}
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            for tensor in _changed(node):
                origin = _origin(tensor)
                spec = owners.get(_storage(tensor)) or specs.get(origin.name if origin.op == "placeholder" else "")
                problem = _problem(spec, names)
                if problem:
                    return node, problem
    return None


def _problem(spec: Any, names: Mapping[str, str]) -> str:
    if spec is None:
        return ""
    if spec.kind == InputKind.USER_INPUT:
        name = names[spec.arg.name]
        return f"changes the input '{name}' in place; expected a change of its clone(), which forward returns"
    if spec.kind == InputKind.PARAMETER:
        return f"changes the parameter '{spec.target}' in place; expected a buffer: self.register_buffer"
    if spec.kind == InputKind.CONSTANT_TENSOR:
        of = "a tensor" if spec.target.rpartition(".")[2].startswith("lifted_tensor") else f"the tensor '{spec.target}'"
        return f"changes {of} in place that is no buffer; expected self.register_buffer"
    return ""


def _changed(node: Node) -> Iterator[Node]:
    """Yield the tensors that a node changes."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return
    places, flag = _STATISTICS.get(node.target, ((), 0))
    if places and node.args[flag]:
        yield from (node.args[place] for place in places if isinstance(node.args[place], Node))
    for place, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            for each in given if isinstance(given, (list, tuple)) else [given]:
                if isinstance(each, Node):
                    yield each


def _origin(node: Node) -> Node:
    """Return the tensor that a node is a view of."""
    while node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
        schema = node.target._schema
        shared = {each for result in schema.returns if result.alias_info for each in result.alias_info.before_set}
        viewed = (
            given
            for argument, given in zip(schema.arguments, node.args, strict=False)
            if argument.alias_info and shared & argument.alias_info.before_set and isinstance(given, Node)
        )
        origin = next(viewed, None)
        if origin is None or (origin.op != "placeholder" and _storage(origin) != _storage(node)):
            return node
        node = origin
    return node


def _storage(node: Node) -> Any:
    """Return an identifier of a tensor's memory, or of the node if it has none."""
    value = node.meta.get("val")
    dense = isinstance(value, torch.Tensor) and value.layout == torch.strided
    return value.untyped_storage()._cdata if dense else node
