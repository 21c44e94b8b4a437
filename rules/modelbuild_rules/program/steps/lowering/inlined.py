"""A lowered program as one graph: the nodes of each partition replace the call of its delegate."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from executorch.exir.delegate import executorch_call_delegate
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
from torch.fx import Graph, GraphModule, Node

from modelbuild_rules.model.steps.exported.sources import ValuesNeeded


def inlined(program: ExportedProgram) -> ExportedProgram:
    """Return an edge program with the results of a program whose partitions are calls of delegates. The state that a
    partition changes is lost. Raises ValuesNeeded for a partition with control flow."""
    graph = Graph()
    graph.output(graph.graph_copy(program.graph, dict[Node, Node]()))
    signature, state, constants = deepcopy(program.graph_signature), dict(program.state_dict), dict(program.constants)
    for number, call in enumerate([node for node in graph.nodes if node.target is executorch_call_delegate]):
        module, *given = call.args
        part = getattr(program.graph_module, module.target).original_module
        if part.graph.find_nodes(op="get_attr"):
            raise ValuesNeeded("a partition has control flow")
        values, arguments = dict[Any, Any](), iter(given)
        specs = part.graph_signature.input_specs
        for node, spec in zip(part.graph.find_nodes(op="placeholder"), specs, strict=True):
            if spec.kind == InputKind.USER_INPUT:
                values[node] = next(arguments)
                continue
            home, own = (state, part.state_dict) if spec.target in part.state_dict else (constants, part.constants)
            with graph.inserting_before(next(iter(graph.nodes))):
                made = values[node] = graph.placeholder(f"p{number}_{node.name}")
            made.meta = dict(node.meta)
            target = f"p{number}.{spec.target}"
            home[target] = own[spec.target]
            signature.input_specs.insert(0, replace(spec, arg=TensorArgument(made.name), target=target))
        with graph.inserting_before(call):
            results = graph.graph_copy(part.graph, values)
        kinds = [spec.kind for spec in part.graph_signature.output_specs]
        outputs = [each for each, kind in zip(results, kinds, strict=True) if kind == OutputKind.USER_OUTPUT]
        for user in list(call.users):  # a getitem
            signature.replace_all_uses(user.name, outputs[user.args[1]].name)
            user.replace_all_uses_with(outputs[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(call)
        graph.erase_node(module)
    whole = GraphModule(program.graph_module, graph)
    return ExportedProgram(
        root=whole,
        graph=whole.graph,
        graph_signature=signature,
        state_dict=state,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=constants,
        verifiers=program.verifiers,
    )
