"""Find the node at which a partition's engine can't be built any more, if TensorRT does not name it."""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem

import torch
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree


def node_at_fault(program: ExportedProgram, builds: Callable[[ExportedProgram], bool]) -> str | None:
    """Return the name of the first node with which the beginning of a partition can't be built, for a partition that
    can't; None if no beginning can. Asks `builds` about as often as the number of nodes has binary digits."""
    good, bad = 0, len(_steps(program))
    while bad - good > 1:
        middle = (good + bad) // 2
        part = beginning(program, middle)
        if part is None or builds(part):
            good = middle
        else:
            bad = middle
    return _steps(program)[good].name if good else None


def beginning(program: ExportedProgram, count: int) -> ExportedProgram | None:
    """Return the program of a partition's first `count` nodes, whose results are the tensors that later nodes read;
    None if there are none."""
    kept = set(_steps(program)[:count])
    graph, copies = Graph(), dict[Node, Node]()
    for node in program.graph.nodes:
        if node.target is getitem and node.args[0] in kept:
            kept.add(node)
        if node in kept or (node.op != "output" and not node.all_input_nodes and kept.intersection(node.users)):
            copies[node] = graph.node_copy(node, copies.__getitem__)
            copies[node].name = node.name
    read = [node for node in kept if node in copies and any(user not in copies for user in node.users)]
    results = [copies[node] for node in read if isinstance(node.meta["val"], torch.Tensor)]
    results.sort(key=list(graph.nodes).index)
    if not results:
        return None
    graph.output(tuple(results))
    names = {node.name for node in copies.values()}
    given = [spec for spec in program.graph_signature.input_specs if spec.arg.name in names]
    inputs = [spec.arg.name for spec in given if spec.kind == InputKind.USER_INPUT]
    made = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=node.name), None) for node in results]
    specs = [pytree.tree_flatten(each)[1] for each in ((tuple(inputs), {}), tuple(made))]
    return ExportedProgram(
        root=GraphModule(program.graph_module, graph),
        graph=graph,
        graph_signature=ExportGraphSignature(given, made),
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=[ModuleCallEntry("", ModuleCallSignature([], [], *specs))],
        constants=program.constants,
        verifiers=program.verifiers,
    )


def _steps(program: ExportedProgram) -> list[Node]:
    """Return the nodes that compute, in order."""
    return [node for node in program.graph.nodes if node.op == "call_function" and node.target is not getitem]
