"""Find the nodes that prevent building a partition's engine, if TensorRT does not name them."""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem

import torch
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from modelbuild_rules.backends.tensorrt.steps.engine.engine import INNER_PROFILES, PROFILES

LEADING = 4
"""The maximum number of first nodes that can cause a failure together."""


def nodes_at_fault(program: ExportedProgram, builds: Callable[[ExportedProgram], bool]) -> list[str]:
    """Return the name of the first node with which the beginning of a partition cannot be built, for a partition that
    cannot be built. If no beginning can be built, return the names of the nodes before the first node that can be built
    alone; none if this node is not near, because then the nodes are not the cause. Calls `builds` about as often as the
    number of nodes has binary digits."""
    names = [node.name for node in _steps(program)]
    good, bad = 0, len(names)
    while bad - good > 1:
        middle = (good + bad) // 2
        tried = part(program, 0, middle)
        if tried is None or builds(tried):
            good = middle
        else:
            bad = middle
    if good:
        return [names[good]]
    for index in range(1, min(len(names), LEADING + 1)):
        tried = part(program, index, index + 1)
        if tried is not None and builds(tried):
            return names[:index]
    return []


def part(program: ExportedProgram, start: int, stop: int) -> ExportedProgram | None:
    """Return the program of some of a partition's nodes. Its inputs are tensors of earlier nodes and the partition's
    own inputs, its results the tensors that later nodes read. None if there are no results, or nodes read earlier
    numbers."""
    kept = set(_steps(program)[start:stop])
    graph, copies, earlier = Graph(), dict[Node, Node](), list[Node]()
    for node in program.graph.nodes:
        if node.target is getitem and node.args[0] in kept:
            kept.add(node)
        if node not in kept and not kept.intersection(node.users):
            continue
        if node in kept or node.op != "call_function":
            copies[node] = graph.node_copy(node, copies.__getitem__)
        else:
            if not isinstance(node.meta["val"], torch.Tensor):
                return None
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = {"val": node.meta["val"], PROFILES: node.meta.get(INNER_PROFILES)}
            earlier.append(node)
        copies[node].name = node.name
    read = [node for node in kept if any(user not in kept for user in node.users)]
    results = [copies[node] for node in read if isinstance(node.meta["val"], torch.Tensor)]
    results.sort(key=list(graph.nodes).index)
    if not results:
        return None
    graph.output(tuple(results))
    names = {node.name for node in copies.values()}
    given = [spec for spec in program.graph_signature.input_specs if spec.arg.name in names]
    given += [InputSpec(InputKind.USER_INPUT, TensorArgument(name=node.name), None) for node in earlier]
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
