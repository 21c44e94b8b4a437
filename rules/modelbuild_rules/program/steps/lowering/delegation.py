"""Record which backend took each node of a lowered program, and why the backends before it did not.

Only nodes that compute count: placeholders, constants and `getitem`s of results are excluded. Nodes inside the branches
of a control-flow operator are named `branch.node`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from executorch.exir.backend.partitioner import Partitioner

from modelbuild.step import Progress
from modelbuild_rules.backend_api.steps.nodes import branches, computing, op_name, origin
from modelbuild_rules.backend_api.steps.quantized import quantized
from modelbuild_rules.program.steps.lowering.patches.arrange import mark_places
from modelbuild_rules.program.steps.lowering.stack import StackBackend

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import NodeDelegation, NodePlace, Refusal


@dataclass
class Fact:
    """The delegation of a node. Delegated nodes have a `partition` and an `index`, their position in it.

    `origin` is the node of the exported program that it was made from.
    """

    name: str
    op: str
    module: str | None
    origin: str | None = None
    backend: str | None = None
    tag: tuple[int, str] | None = None
    partition: str | None = None
    index: int | None = None
    refused: list[Refusal] = field(default_factory=list)

    def as_json(self) -> NodeDelegation:
        """Return the node's entry in delegation.json."""
        place: NodePlace = {} if self.partition is None else {"partition": self.partition, "index": self.index}
        return {
            "name": self.name,
            "op": self.op,
            "module": self.module,
            "origin": self.origin,
            "backend": self.backend,
            **place,
            "refused": self.refused,
        }


class Delegation:
    """The delegation of all nodes, recorded during a lowering."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.current: StackBackend  # the backend that was last offered nodes
        self.found = 0  # number of the partitions made so far
        self._partitions: dict[tuple[int, str], tuple[str, dict[str, int]]] = {}

    def record_nodes(self, program: Any) -> None:
        """Record the nodes of a program before any is delegated."""
        owners = _owners(program)
        for name, node in computing(program.graph_module):
            self.facts[name] = Fact(name, op_name(node), _module(node, owners), origin(node))

    def record_offer(
        self, backend: StackBackend, program: Any, why: Mapping[str, str], refusal: Callable[[Any], str]
    ) -> None:
        """Record which remaining nodes a backend took, and why it refused the others."""
        self.current = backend
        if not self.facts:
            self.record_nodes(program)
        for name, node in computing(program.graph_module):
            fact = self.facts[name]
            tag = node.meta.get("delegation_tag")
            if tag is not None:
                fact.backend, fact.tag = backend.kind, (backend.number, tag)
            else:
                nested = "inside a branch of control flow" if "." in name else None
                fact.refused.append({"backend": backend.kind, "why": why.get(node.name) or nested or refusal(node)})

    def record_partition(self, program: Any, partition: str) -> None:
        """Record the id of a partition of the current backend."""
        nodes = [node for _, node in computing(program.graph_module)]
        indices = {node.name: index for index, node in enumerate(nodes)}
        for tag in {node.meta["delegation_tag"] for node in nodes}:
            self._partitions[self.current.number, tag] = (partition, indices)

    def finish(self, rest: str | None) -> list[Fact]:
        """Return all facts in the program's order. `rest` is the backend of nodes that no other backend took."""
        for fact in self.facts.values():
            if fact.tag is None:
                fact.backend = rest
            else:
                fact.partition, indices = self._partitions[fact.tag]
                fact.index = indices.get(fact.name.rpartition(".")[2])
        return list(self.facts.values())


class RecordingPartitioner(Partitioner):
    """A backend's partitioner that records the nodes that it takes and refuses."""

    def __init__(
        self,
        backend: StackBackend,
        delegation: Delegation,
        failed_nodes: Mapping[str, str],
        progress: Progress,
        before: Callable[[Any], None],
    ) -> None:
        """`failed_nodes` has reasons by node. `before` is called with the program before the backend gets it."""
        super().__init__()
        self._backend = backend
        self._partitioner = backend.partitioning.partitioner(backend.attributes, failed_nodes)
        self._delegation = delegation
        self._progress = progress
        self._before = before
        self.following: Sequence[RecordingPartitioner] = ()

    def ops_to_not_decompose(self, ep: Any) -> Any:
        """Return the operators that the backend takes as a whole, except in branches of control flow, where no backend
        takes any: executorch decomposes an operator everywhere or nowhere. executorch decomposes for each backend in
        turn, so operators that this backend leaves as quantized are kept for the backends that follow."""
        kept, supported = self._partitioner.ops_to_not_decompose(ep)
        left = quantized(ep.graph) if self._backend.partitioning.leaves_quantized else set()
        if left:
            own, is_own = set(kept), supported
            kept = list(own.union(*(each.ops_to_not_decompose(ep)[0] for each in self.following)))

            def supported(node: Any) -> bool:
                return node.name in left or (node.target in own and (is_own is None or is_own(node)))

        nested = {node.target for each in branches(ep.graph_module) for node in each.graph.nodes}
        return [operator for operator in kept if operator not in nested], supported

    def partition(self, exported_program: Any) -> Any:
        self._before(exported_program)
        self._progress(f"nodes for {self._backend.kind}")
        with self._backend.partitioning.refusals() as why:
            result = self._partitioner.partition(exported_program)
        mark_places(result.tagged_exported_program.graph_module)
        self._delegation.found += len(result.partition_tags)
        refusal = partial(self._backend.partitioning.refusal, self._partitioner)
        self._delegation.record_offer(self._backend, result.tagged_exported_program, why, refusal)
        return result


def _module(node: Any, owners: Mapping[str, str]) -> str | None:
    """Return the qualified name of a node's module in the model, from its trace or from the parameters it reads."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if stack:
        return str(stack[-1][0])
    return next((owners[source.name] for source in node.all_input_nodes if source.name in owners), None)


def _owners(program: Any) -> dict[str, str]:
    """Return the module of each parameter or buffer, by placeholder."""
    signature = program.graph_signature
    stored = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return {name: target.rpartition(".")[0] for name, target in stored.items()}
