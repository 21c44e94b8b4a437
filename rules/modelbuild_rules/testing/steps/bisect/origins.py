"""Follow nodes through a lowering, and compute their expected results with the exported program in eager mode.

Passes of torch and executorch copy a node's `meta["custom"]` to the nodes that replace it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir.delegate import executorch_call_delegate
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from modelbuild_rules.backend_api.steps.nodes import op_name
from modelbuild_rules.program.steps.lowering.agreement import flat_inputs

_KEY = "modelbuild_origin"


@dataclass(frozen=True)
class Origin:
    """The expected result of a lowered node: the result of a node of the exported program, or its element `index`."""

    node: str
    index: int | None = None


def mark(program: Any) -> None:
    """Store each node's name in its metadata, which lowering keeps."""
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.meta["custom"] = {**(node.meta.get("custom") or {}), _KEY: node.name}


def origins(edge: Any, exported: Any) -> dict[Any, Origin]:
    """Return the origin of each lowered node, including nodes inside partitions.

    If several nodes replace a node, only the last has its result; the others are excluded, as are nodes whose dtype or
    shape differs from their origin's.
    """
    types = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    last: dict[Origin, Any] = {}
    for node in _nodes(edge):
        origin = _origin(node)
        if origin is not None and _alike(node.meta.get("val"), _part(types.get(origin.node), origin.index)):
            last[origin] = node
    return {node: origin for origin, node in last.items()}


def results(exported: Any, inputs: Sequence[torch.Tensor], wanted: Collection[str]) -> tuple[dict[str, Any], list[Any]]:
    """Run the program in eager mode. Return the results of the nodes in `wanted`, by name, and all outputs."""
    run = _Keeping(exported.graph_module, wanted)
    with torch.no_grad():
        outputs = run.run(*flat_inputs(exported, [each.clone() for each in inputs]))
    return run.kept, pytree.tree_leaves(outputs)


def leading_to(exported: Any, outputs: Sequence[bool]) -> frozenset[str]:
    """Return the names of the nodes that compute some outputs of the model: those that are true in `outputs`. Returns
    all nodes if none is true, and for a program with a node that changes a tensor in place."""
    graph = exported.graph_module.graph
    kinds = [spec.kind for spec in exported.graph_signature.output_specs]
    own = [n for n, kind in zip(graph.output_node().args[0], kinds, strict=True) if kind == OutputKind.USER_OUTPUT]
    found = set(graph.nodes)
    changes = any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in graph.nodes)
    if any(outputs) and len(outputs) == len(own) and not changes:
        waiting = [n for n, chosen in zip(own, outputs, strict=True) if chosen and isinstance(n, torch.fx.Node)]
        found = set(waiting)
        while waiting:
            new = set(waiting.pop().all_input_nodes) - found
            found |= new
            waiting += new
    return frozenset(node.name for node in found)


def advance(exported: Any, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Run the program in eager mode, and return the buffers that it changes by name. The program keeps its buffers."""
    signature, changed = exported.graph_signature, {}
    given = [
        value.clone() if isinstance(value, torch.Tensor) else value
        for value in flat_inputs(exported, [each.clone() for each in inputs])
    ]
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in given]
    with torch.no_grad():
        values = pytree.tree_leaves(torch.fx.Interpreter(exported.graph_module).run(*given))
    # A program changes buffers in place, or returns new buffers.
    for spec, old, new in zip(signature.input_specs, before, given, strict=True):
        if spec.kind == InputKind.BUFFER and not torch.equal(old, new):
            changed[spec.target] = new
    for spec, value in zip(signature.output_specs, values, strict=True):
        if spec.kind == OutputKind.BUFFER_MUTATION:
            changed[spec.target] = value.clone()
    return changed


def set_state(exported: Any, buffers: Mapping[str, torch.Tensor]) -> None:
    """Replace the given buffers that a program has."""
    for name, value in buffers.items():
        for held in (exported.state_dict, exported.constants):
            if name in held:
                held[name] = value
                break


def result_of(kept: Mapping[str, Any], origin: Origin) -> torch.Tensor:
    """Return the tensor of an origin from the results that `results` returned."""
    value = _part(kept[origin.node], origin.index)
    assert isinstance(value, torch.Tensor)
    return value


def takes_from_delegate(node: Any) -> bool:
    """Return whether a node gets a result of a partition's call."""
    return getattr(node.target, "__name__", "") == "getitem" and node.args[0].target is executorch_call_delegate


def has_computed_range(node: Any) -> bool:
    """Return whether a node chooses the range of a tensor, or uses a chosen range: a backend quantizes the tensor
    inside the operator that takes it, and returns neither."""
    taken = [node, *node.all_input_nodes]
    sources = [each.args[0] if getattr(each.target, "__name__", "") == "getitem" else each for each in taken]
    return any(each.op == "call_function" and "choose_qparams" in op_name(each) for each in sources)


class _Keeping(torch.fx.Interpreter):
    """Interpreter that copies the results of some nodes right after they ran; a later node may change them in place."""

    def __init__(self, module: torch.fx.GraphModule, wanted: Collection[str]) -> None:
        super().__init__(module)
        self._wanted = wanted
        self.kept: dict[str, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        if n.name in self._wanted:
            self.kept[n.name] = pytree.tree_map_only(torch.Tensor, torch.clone, value)
        return value


def _nodes(edge: Any) -> Iterator[Any]:
    """Yield the nodes that compute, in order, with a partition's nodes at the place of its call."""
    for node in edge.graph.nodes:
        if node.op == "call_function" and node.target is executorch_call_delegate:
            inner = getattr(edge.graph_module, node.args[0].target).original_module
            yield from (each for each in inner.graph.nodes if each.op == "call_function")
        elif node.op == "call_function" and not takes_from_delegate(node):
            yield node


def _origin(node: Any) -> Origin | None:
    if getattr(node.target, "__name__", "") != "getitem":
        name = (node.meta.get("custom") or {}).get(_KEY)
        return Origin(name) if name else None
    source = node.args[0]
    name = (source.meta.get("custom") or {}).get(_KEY)
    return Origin(name, node.args[1]) if name else None


def _part(value: Any, index: int | None) -> Any:
    if index is None:
        return value
    return value[index] if isinstance(value, (list, tuple)) and index < len(value) else None


def _alike(one: Any, other: Any) -> bool:
    """Return whether both are tensors of the same dtype and shape, ignoring symbolic sizes."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    if one.dtype != other.dtype or one.dim() != other.dim():
        return False
    sizes = zip(one.shape, other.shape, strict=True)
    return all(a == b for a, b in sizes if isinstance(a, int) and isinstance(b, int))
