"""Give a partition a canonical order that does not depend on the program around it.

In executorch, the order of a partition depends on the rest of the program: the first partition has its operators in the
model's order and its inputs in the program's order, and each extraction sorts the remaining program again. An operator
in front of a partition would thus change it. This module keeps operators in the model's order, and sorts inputs,
constants and results by their first use.

The sort of the remaining program puts nodes with many ancestors, such as assertions about values, behind the output,
but executorch expects the output at the end. torch.fx's stable sort leaves it there.

Private names patched while the contexts last, checked on executorch 1.5.1:
executorch.exir.backend.backend_api.create_exported_program_from_submodule
executorch.exir.lowered_backend_module.legalize_graph
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from executorch.exir import lowered_backend_module
from executorch.exir.backend import backend_api
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx.passes.tools_common import stable_topological_sort

_PLACE = "modelbuild_place"


def mark_places(module: torch.fx.GraphModule) -> None:
    """Store the position of each node, including nodes of branches, unless it is stored already."""
    for graph in [inner.graph for inner in module.modules() if isinstance(inner, torch.fx.GraphModule)]:
        for place, node in enumerate(graph.nodes):
            node.meta.setdefault(_PLACE, place)


@contextmanager
def arranged() -> Iterator[None]:
    """Reorder each partition that executorch extracts while the context lasts."""
    make = backend_api.create_exported_program_from_submodule

    def arrange_first(submodule: Any, program: Any, tag: str, call: Any, nested: bool) -> Any:
        _arrange(submodule.graph, call)
        made = make(submodule, program, tag, call, nested)
        _own_constants(made[0])
        return made

    with patch.object(backend_api, "create_exported_program_from_submodule", arrange_first):
        yield


@contextmanager
def sorted_stably() -> Iterator[None]:
    """Keep the order of a program from which executorch extracts a partition, while the context lasts."""
    with patch.object(lowered_backend_module, "legalize_graph", stable_topological_sort):
        yield


def _own_constants(program: ExportedProgram) -> None:
    """Give each input of a partition a constant of its own. executorch adds an input for each reader of a constant of
    several partitions, all with one name, but torch calls no program with two inputs for a constant's name."""
    specs, seen = program.graph_signature.input_specs, set()
    for place, spec in enumerate(specs):
        if spec.kind == InputKind.CONSTANT_TENSOR and spec.target in seen:
            specs[place] = replace(spec, target=spec.arg.name)
            program.constants[spec.arg.name] = program.constants[spec.target]
        seen.add(specs[place].target)


def _arrange(graph: torch.fx.Graph, call: torch.fx.Node) -> None:
    """Reorder a partition's graph, its call's arguments and the users of the call's results. The graph's first inputs
    are the arguments; the others are its own constants."""
    last = graph.output_node()
    given = [node for node in graph.nodes if node.op == "placeholder"]
    nodes = _in_order([node for node in graph.nodes if node.op not in ("placeholder", "output")])
    used = [source for node in (*nodes, last) for source in node.all_input_nodes if source.op == "placeholder"]
    inputs = list(dict.fromkeys((*used, *given)))
    for node in (*inputs, *nodes):
        last.prepend(node)
    arguments = dict(zip(given, call.args, strict=False))
    call.args = tuple(arguments[node] for node in inputs if node in arguments)
    results: Sequence[torch.fx.Node] = last.args[0]
    place = {node: number for number, node in enumerate((*inputs, *nodes))}
    new = sorted(range(len(results)), key=lambda number: place[results[number]])
    last.args = ([results[number] for number in new],)
    for user in list(call.users):
        if user.target is operator.getitem:
            user.args = (call, new.index(user.args[1]))


def _in_order(nodes: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """Return nodes by stored position, after the nodes that they use. A node without a stored position follows the last
    node that it uses."""
    keys: dict[Any, tuple[int, int]] = {}
    for number, node in enumerate(nodes):
        uses = [keys[source][0] for source in node.all_input_nodes if source in keys]
        keys[node] = node.meta.get(_PLACE, max(uses, default=-1)), number
    left = {node: sum(source in keys for source in node.all_input_nodes) for node in nodes}
    ready = [(keys[node], node) for node in nodes if not left[node]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, node = heapq.heappop(ready)
        ordered.append(node)
        for user in node.users:
            if user in left:
                left[user] -= 1
                if not left[user]:
                    heapq.heappush(ready, (keys[user], user))
    return ordered
