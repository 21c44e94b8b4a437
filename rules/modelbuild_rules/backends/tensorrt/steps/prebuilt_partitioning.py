"""Partitioning for an engine from elsewhere: each of its calls is a partition."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from typing import Any

from executorch.exir.backend.backend_details import BackendDetails
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.partitioning import Partitioning
from modelbuild_rules.model.steps.exported import compiled_part  # noqa: F401  (registers its operator)

BACKEND = "TensorRTBackend"
_OPERATOR = "modelbuild.compiled_part.default"


class _Calls(Partitioner):
    """Takes the calls of one part, each with all of its results."""

    def __init__(self, part: str, target_device: str) -> None:
        super().__init__()
        self._part = part
        self._device = CompileSpec("target_device", target_device.encode())

    def ops_to_not_decompose(self, ep: Any) -> tuple[list[Any], None]:
        return [], None

    def partition(self, exported_program: Any) -> PartitionResult:
        specs: dict[str, DelegationSpec] = {}
        for node in exported_program.graph.nodes:
            interface = _interface(node)
            if interface is None or interface["id"] != self._part:
                continue
            tag = f"engine_{len(specs)}"
            specs[tag] = DelegationSpec(BACKEND, [self._device])
            for each in (node, *_results(node, interface)):
                each.meta["delegation_tag"] = tag
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=specs)


def _interface(node: Any) -> Any:
    """Return the interface of a node that calls a part; None for another node."""
    if node.op != "call_function" or getattr(node.target, "__name__", "") != _OPERATOR:
        return None
    return json.loads(node.args[1])


def _results(node: Any, interface: Mapping[str, Any]) -> list[Any]:
    """Return the results of a call in the engine's order, and sort them in the graph. Raises StepError for an unused
    result and for an argument that is used twice, because a delegate allows neither."""
    if len(set(node.args[0])) != len(node.args[0]):
        raise StepError(f"{interface['name']} is called with one tensor as two inputs; expected a copy as one of them")
    by_index = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    for index, output in enumerate(interface["outputs"]):
        if index not in by_index:
            raise StepError(f"the output '{output['name']}' of {interface['name']} is not used; expected all to be")
    results = [by_index[index] for index in range(len(by_index))]
    for result in reversed(results):
        node.append(result)
    return results


class _EnginePartitioning(Partitioning):
    ids = (BACKEND,)

    def partitioner(self, attributes: Mapping[str, Any], failed_nodes: Mapping[str, str]) -> _Calls:
        if not any(cls.__name__ == BACKEND for cls in BackendDetails.__subclasses__()):
            # executorch finds backends by the names of subclasses.
            _classes.append(type(BACKEND, (BackendDetails,), {}))
        return _Calls(attributes["part"], attributes["target_device"])


_classes: list[type] = []  # Python forgets a class without references
PARTITIONING = _EnginePartitioning()
