"""The interface of backends for the step that partitions a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from modelbuild.step import StepError


class AttributeProblem(StepError):
    """An attribute's value that a partitioner refuses, for an error at its place in BUILD.toml."""

    def __init__(self, attribute: str, problem: str) -> None:
        super().__init__(f"attribute '{attribute}': {problem}")
        self.attribute = attribute
        self.problem = problem


class Partitioning:
    """A backend's part in lowering. Its module `partitioning` defines `PARTITIONING`, an instance of a subclass. `ids`
    and `partitioner` have no default. `attributes` are the declaration's `partition_attributes`.

    ids               names of the executorch backends (BackendDetails subclasses) of its partitions
    annotations       keys of nodes' meta for its compiler
    passes            passes on the edge program, before any backend is offered nodes
    on_gpu            true if its partitions run on a GPU
    generates_code    true if its code may compute constants where they are used, instead of before partitioning
    leaves_quantized  true if it leaves operators on quantized values to later backends
    advice            by refused operator, what to write in the model instead
    excluding         its attribute with operators to leave to the next backend
    unrolls           the most unrolled steps of a recurrent net if it is the first of a stack; by default few
    """

    ids: tuple[str, ...]
    annotations: tuple[str, ...] = ()
    passes: tuple[Any, ...] = ()
    on_gpu: bool = False
    generates_code: bool = False
    leaves_quantized: bool = False
    advice: Mapping[str, str] = MappingProxyType({})
    excluding: str = "exclude_ops"
    unrolls: int = 4

    def common(self, attributes: Mapping[str, Any]) -> str:
        """Return the memory, such as "cuda:0", of the state that its partitions share; "" if each has its own state."""
        return ""

    def prepare(self, program: Any) -> Any:
        """Return an ATen program, which may be changed, in a form for the partitioner."""
        return program

    def partitioner(self, attributes: Mapping[str, Any], failed_nodes: Mapping[str, str]) -> Any:
        """Return an executorch Partitioner. Raises StepError for attributes with unknown names.

        failed_nodes  nodes not to take, with the reason why their partition could not be compiled
        """
        raise NotImplementedError

    @contextmanager
    def refusals(self) -> Iterator[dict[str, str]]:
        """Collect the partitioner's reasons for refusing nodes, by name, while the context lasts."""
        yield {}

    def refused(self, program: Any, attributes: Mapping[str, Any]) -> dict[str, str]:
        """Return the reasons for refusing nodes of an edge program, by name, before it is lowered, without branches of
        control flow. It stays unchanged.

        By default it offers all nodes to the partitioner.
        """
        partitioner = self.partitioner(attributes, {})
        metas = [(node, dict(node.meta)) for graph in _graphs(program) for node in graph.nodes]
        try:
            with self.refusals() as why:
                partitioner.partition(program)
            left = [node for node in program.graph.nodes if node.op == "call_function"]
            left = [node for node in left if "delegation_tag" not in node.meta]
            return {node.name: why.get(node.name) or self.refusal(partitioner, node) for node in left}
        finally:
            for node, meta in metas:
                node.meta.clear()
                node.meta.update(meta)

    def failure(self, program: Any, attributes: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the nodes that prevent a partition's compilation, with the reason, if the backend tries it while
        partitioning."""
        return {}

    def eager(self, program: Any, attributes: Mapping[str, Any]) -> tuple[Callable[..., Any], float] | None:
        """Return a partition's form for the compiler, to run in eager mode, and its tolerance; None for the partition
        itself."""
        return None

    def at_fault(self, program: Any, works: Callable[[Any], bool]) -> Sequence[str]:
        """Return the first nodes with which a partition does not work, if found. The search calls `works` for parts of
        the partition, or their form by `eager`."""
        return ()

    def refusal(self, partitioner: Any, node: Any) -> str:
        """Return the reason for a refused node that `refusals` lacks."""
        return "not taken by the partitioner"


def _graphs(program: Any) -> Iterator[Any]:
    """Yield the graphs of a program and of the branches in it."""
    for module in program.graph_module.modules():
        if hasattr(module, "graph"):
            yield module.graph
