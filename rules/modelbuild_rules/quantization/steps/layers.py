"""List the layers that a recipe quantizes: the innermost modules of the operators.

Inputs   program, weights   trees, as model/steps/exported/program.py writes them
         modules            JSON: Modules of quantization/documents.py
Params   RecipeParams of quantization/documents.py
Outputs  layers             JSON: Layers of quantization/documents.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from torchao.quantization.pt2e.quantizer import SharedQuantizationSpec
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from modelbuild.step import Step, StepError
from modelbuild_rules.backend_api.steps.quantizing import allowed_nodes, module_of, quantizing
from modelbuild_rules.quantization.steps.prepared import prepare, unlifted

if TYPE_CHECKING:
    from modelbuild_rules.quantization.documents import Layers, UsedQuantizer


def run(step: Step) -> None:
    step.progress("reading the program")
    quantizers: Sequence[UsedQuantizer] = step.params["quantizers"]
    given = unlifted(step, quantizers)
    module = prepare(given, quantizers) or given.module
    found: dict[str, list[tuple[Any, int]]] = {}
    for node in module.graph.nodes:
        table = _table(node, quantizers)
        if table is not None:
            found.setdefault(module_of(node), []).append((node, table))
    if not found:
        raise StepError("the recipe quantizes no operator of the model; expected a recipe that takes some operators")
    parameters = dict(module.named_parameters(remove_duplicate=False))
    layers: Layers = [
        {
            "name": name,
            "operators": sorted({str(node.target) for node, _ in nodes}),
            "tables": sorted({table for _, table in nodes}),
            "parameters": sum(
                parameters[each].numel()
                for each in {given.copies.get(each, each) for node, _ in nodes for each in _stored(node)}
                if each in parameters
            ),
        }
        for name, nodes in found.items()
    ]
    step.outputs["layers"].write_text(json.dumps(layers, indent=1) + "\n")


def _table(node: Any, quantizers: Sequence[UsedQuantizer]) -> int | None:
    """Return the index of the table that quantizes an operator; None if no table does."""
    if node.op != "call_function":
        return None
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    inputs = annotation.input_qspec_map.values() if annotation is not None else ()
    observed = any(not isinstance(each, SharedQuantizationSpec) for each in inputs)
    stored = str(node.target) == "aten.linear.default" and node.args[1].op == "get_attr"
    for index, used in enumerate(quantizers):
        own = quantizing(used)
        linear = own.linear(used["attributes"]) is not None
        takes = stored if linear else observed or "rewritten" in node.meta
        if takes and allowed_nodes(used["attributes"], own)(node):
            return index
    return None


def _stored(node: Any) -> Iterator[str]:
    """Yield the names of the parameters and buffers that an operator reads, also through observers."""
    for each in node.all_input_nodes:
        source = each.all_input_nodes[0] if each.op == "call_module" else each
        if source.op == "get_attr":
            yield str(source.target)
