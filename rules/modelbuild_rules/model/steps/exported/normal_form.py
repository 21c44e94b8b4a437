"""Make the declared inputs the only arguments of an exported program, in the order declared, and remove calls that
compute nothing, such as the calls of a package that `forward` imports.

torch.export keeps the nesting of a call's arguments, and its constants as inputs. A program for a device takes a flat
list of tensors.

Private names used, checked on torch 2.14.0: torch.utils._pytree (tree_leaves, tree_structure), and the lists inside an
ExportedProgram (graph_signature.input_specs, module_call_graph), which are changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import Node
from torch.utils import _pytree as pytree


def normalize(
    program: ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any], inputs: Sequence[torch.Tensor]
) -> None:
    """Give a program that was exported with these arguments the form of a program for a device: its arguments are the
    tensors `inputs`, which the exported arguments contain."""
    _remove_unused(program)
    _flatten_arguments(program, args, kwargs, inputs)


def _remove_unused(program: ExportedProgram) -> None:
    """Remove calls of operators without tensors whose results nothing uses. torchvision calls such an operator when it
    is imported."""
    for node in reversed(list(program.graph.nodes)):
        if isinstance(node.target, torch._ops.OpOverload) and not node.users and not _tensors(node):
            program.graph.erase_node(node)
    program.graph_module.recompile()


def _tensors(node: Node) -> bool:
    """Return whether a node has arguments from the graph, or a result that a program computes."""
    computed = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    return bool(node.all_input_nodes) or isinstance(node.meta.get("val"), computed)


def _flatten_arguments(
    program: ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any], inputs: Sequence[torch.Tensor]
) -> None:
    """Remove constants from the inputs of a program that was exported with these arguments, and sort its tensors as
    `inputs`, which the arguments contain."""
    if not kwargs and len(args) == len(inputs) and all(a is b for a, b in zip(args, inputs, strict=True)):
        return
    leaves = pytree.tree_leaves((args, dict(kwargs)))
    specs = program.graph_signature.input_specs
    given = [spec for spec in specs if spec.kind == InputKind.USER_INPUT]
    place = {id(each): number for number, each in enumerate(inputs)}
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found = {}
    for spec, leaf in zip(given, leaves, strict=True):
        if isinstance(spec.arg, ConstantArgument):
            program.graph.erase_node(nodes[spec.arg.name])
        else:
            found[place[id(leaf)]] = spec
    ordered = [found[number] for number in range(len(inputs))]
    specs[:] = [spec for spec in specs if spec.kind != InputKind.USER_INPUT] + ordered
    first = next(node for node in program.graph.nodes if node.op != "placeholder")
    for spec in ordered:
        first.prepend(nodes[spec.arg.name])
    program.graph_module.recompile()
    call = program.module_call_graph[0].signature
    assert call is not None
    call.in_spec = pytree.tree_structure((tuple(range(len(inputs))), {}))
    call.forward_arg_names = [spec.arg.name for spec in ordered]
