"""Compute what depends on no input and no weight, such as the grid of a detector's anchors, before partitioning.

In the middle of a network such nodes are islands of portable kernels, which split the partitions of delegates. Backends
that generate code compute them in the kernels that use them, which is faster than reading them; only what is computed
in float64, a type that these backends lack, is computed before.

A number that a program reads from such a tensor, such as a size, is part of the program: no backend would take the
nodes that only compute it.

Private names of executorch are used: backend_api/steps/executorch_private.py lists them.
"""

from __future__ import annotations

import operator
from itertools import count
from typing import Any

import torch
from executorch.backends.transforms.utils import create_constant_placeholder, delete_constant_placeholder
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.fx.node import map_arg

from modelbuild_rules.program.steps.lowering.rewrites.decomposition import decomposed, traced_again

_MOST = 1 << 20
"""Maximum number of bytes of a constant."""

_aten = torch.ops.aten
_NUMBERS = frozenset({_aten._local_scalar_dense.default, _aten.item.default})
"""Operators that read a number from a tensor."""

_OF_TYPES = frozenset(
    {
        _aten.full_like.default,
        _aten.new_full.default,
        _aten.new_ones.default,
        _aten.new_zeros.default,
        _aten.ones_like.default,
        _aten.zeros_like.default,
    }
)
"""Operators that read the type of their tensor, and perhaps the shape, but no values."""


_UNDEFINED = frozenset({_aten.empty.memory_format, _aten.new_empty.default, _aten.empty_like.default})
"""Operators whose results have any values; here zeros, so that programs are the same in each build."""


def has_constant_nodes(program: ExportedProgram, doubles: bool = False) -> bool:
    """Return whether a program has nodes that compute the same in every call; with `doubles`, from values in
    float64, or read numbers."""
    nodes = _constant_nodes(program)
    return bool(_of_doubles(nodes) if doubles else nodes) or bool(_numbers(program, nodes))


def fold_constants(program: ExportedProgram, doubles: bool = False) -> ExportedProgram:
    """Return an equivalent program with the values of such nodes as constants, each of at most 1 MiB. Nodes that are
    results of the program stay."""
    program = decomposed(program, {})  # without operators that change their arguments
    while numbers := _numbers(program, nodes := _constant_nodes(program)):
        program = _with_numbers(program, numbers, nodes)
    stored = dict[Any, Node]()
    folded = _of_doubles(nodes) if doubles else nodes
    for node, value in _values(program, nodes).items():
        readers = {user for user in node.users if user not in folded}
        if node in folded and readers and isinstance(value, torch.Tensor):
            made = stored.get(_bits(value)) or _store(program, node, value)
            stored[_bits(value)] = made
            node.replace_all_uses_with(made, delete_user_cb=readers.__contains__)
    program.graph.eliminate_dead_code()
    for name in program.graph_signature.inputs_to_lifted_tensor_constants:
        node = next(each for each in program.graph.nodes if each.name == name)
        if not node.users:
            delete_constant_placeholder(program, node)
    program.graph_module.recompile()
    program.validate()
    return program


def _numbers(program: ExportedProgram, nodes: dict[Node, None]) -> list[Node]:
    """Return the nodes that read a number that is the same in every call, and that is no result."""
    known = {*nodes, *_lifted(program)}
    found = (node for node in program.graph.nodes if node.target in _NUMBERS and node.args[0] in known)
    return [node for node in found if all(user.op != "output" for user in node.users)]


def _with_numbers(program: ExportedProgram, numbers: list[Node], nodes: dict[Node, None]) -> ExportedProgram:
    """Return a program with numbers in place of the nodes that read them."""
    values = {**_lifted(program), **_values(program, nodes)}
    for node in numbers:
        number = values[node.args[0]].item()
        for user in list(node.users):
            user.args, user.kwargs = map_arg(
                (user.args, user.kwargs), lambda each, old=node, new=number: new if each is old else each
            )
        program.graph.erase_node(node)
    program.graph_module.recompile()
    return traced_again(program)


def _bits(value: torch.Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    """Return a key that is equal only for tensors of the same type, shape and bytes."""
    return value.dtype, value.shape, value.reshape(-1).view(torch.uint8).numpy().tobytes()


def _store(program: ExportedProgram, node: Node, value: torch.Tensor) -> Node:
    """Add a constant before the other inputs of the program."""
    name = _new_name(program, node.name)
    with program.graph.inserting_before(next(iter(program.graph.nodes))):
        made = create_constant_placeholder(program, program.graph, name, InputKind.CONSTANT_TENSOR, value)
    made.meta["from_node"] = node.meta.get("from_node", [])
    return made


def _new_name(program: ExportedProgram, node: str) -> str:
    """Return a name for a node's value that the program does not have."""
    taken = {each.name for each in program.graph.nodes} | program.constants.keys() | program.state_dict.keys()
    return next(name for number in count() if (name := f"constant_{node}_{number}") not in taken)


def _lifted(program: ExportedProgram) -> dict[Node, torch.Tensor]:
    """Return the constants of the program that are no weights."""
    names = program.graph_signature.inputs_to_lifted_tensor_constants
    return {node: program.constants[names[node.name]] for node in program.graph.nodes if node.name in names}


def _constant_nodes(program: ExportedProgram) -> dict[Node, None]:
    """Return the nodes that compute the same in every call, in order."""
    known = _lifted(program)
    found: dict[Node, None] = {}
    for node in program.graph.nodes:
        if _is_pure(node) and all(each in known or each in found for each in _read_by(node)):
            found[node] = None
    return found


def _of_doubles(nodes: dict[Node, None]) -> dict[Node, None]:
    """Return the nodes that have a value in float64, or read a constant node that does or reads one."""
    found: dict[Node, None] = {}
    for node in nodes:
        values = node.meta["val"] if isinstance(node.meta["val"], (list, tuple)) else [node.meta["val"]]
        if any(value.dtype == torch.float64 for value in values) or any(each in found for each in _read_by(node)):
            found[node] = None
    return found


def _read_by(node: Node) -> list[Node]:
    """Return the nodes whose values a node reads."""
    return [each for each in node.all_input_nodes if node.target not in _OF_TYPES or each is not node.args[0]]


def _is_pure(node: Node) -> bool:
    """Return whether a node's result depends on its arguments alone, and may be a constant of the program."""
    if node.op != "call_function" or any(user.op == "output" for user in node.users):
        return False
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        # Backends recognize operators by the quantization of their arguments, also of constants.
        if target.namespace != "aten" or torch.Tag.nondeterministic_seeded in target.tags or not node.users:
            return False
    elif target is not operator.getitem:
        return False
    values = node.meta.get("val")
    return all(map(_is_small, values)) if isinstance(values, (list, tuple)) else _is_small(values)


def _is_small(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.is_complex() or value.layout != torch.strided:
        return False
    # The size of a view, such as one of `expand`, is that of a copy.
    return all(isinstance(each, int) for each in value.shape) and value.numel() * value.element_size() <= _MOST


def _values(program: ExportedProgram, nodes: dict[Node, None]) -> dict[Node, Any]:
    """Return the values of the nodes in eager mode."""
    known = _lifted(program)
    found: dict[Node, Any] = {}
    with torch.no_grad():
        for node in nodes:
            values = {**known, **found}
            if node.target in _OF_TYPES:
                values[node.args[0]] = torch.empty((), dtype=node.args[0].meta["val"].dtype).expand(
                    node.meta["val"].shape
                )
            args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
            value = node.target(*args, **kwargs)
            found[node] = torch.zeros_like(value) if node.target in _UNDEFINED else value
    return {
        node: value.clone(memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value
        for node, value in found.items()
    }
