"""The interface of backends for the step that partitions a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from modelbuild.step import StepError


class AttributeProblem(StepError):
    """An attribute's value that a partitioner refuses. The message of a build has its place in BUILD.toml."""

    def __init__(self, attribute: str, problem: str) -> None:
        super().__init__(f"attribute '{attribute}': {problem}")
        self.attribute = attribute
        self.problem = problem


class Partitioning:
    """A backend's part in lowering. The module that a declaration names as `partitioning` defines `PARTITIONING`, an
    instance of a subclass. Only `ids` and `partitioner` have no default. `attributes` are the declaration's
    `partition_attributes`.

    ids          names of the executorch backends (BackendDetails subclasses) of its partitions
    annotations  keys of nodes' meta with data from its partitioner for its compiler
    passes       passes on the edge program, which run before any backend is offered nodes
    on_gpu       true if its partitions run on a GPU
    generates_code
                 true if it compiles nodes to code, which may compute constants where they are used. Otherwise they are
                 computed before partitioning
    real_arithmetic
                 true if its delegate has no complex tensors: complex numbers become pairs of real ones before `prepare`
    leaves_quantized
                 true if it leaves operators on quantized values to the backends after it in a stack
    advice       by operator that it refuses, what to write in the model instead, which it takes
    excluding    the attribute of its table with operators to leave to the next backend
    unrolls      the most steps of a recurrent net that are unrolled if it is the first of a stack. By default few: the
                 program then needs no kernel library and runs on any runtime of ExecuTorch
    """

    ids: tuple[str, ...]
    annotations: tuple[str, ...] = ()
    passes: tuple[Any, ...] = ()
    on_gpu: bool = False
    generates_code: bool = False
    real_arithmetic: bool = False
    leaves_quantized: bool = False
    advice: Mapping[str, str] = MappingProxyType({})
    excluding: str = "exclude_ops"
    unrolls: int = 4

    def common(self, attributes: Mapping[str, Any]) -> str:
        """Return the memory, such as "cuda:0", in which its partitions share the state that they change; "" if each
        partition has its own state."""
        return ""

    def prepare(self, program: Any) -> Any:
        """Return an ATen program, which may be changed, in a form that the partitioner supports."""
        return program

    def partitioner(self, attributes: Mapping[str, Any], failed_nodes: Mapping[str, str]) -> Any:
        """Return an executorch Partitioner. Raises StepError for attributes with unknown names.

        failed_nodes  nodes not to take, because their partition could not be compiled, with the reason
        """
        raise NotImplementedError

    @contextmanager
    def refusals(self) -> Iterator[dict[str, str]]:
        """Collect the partitioner's reasons for not taking nodes, by name, while the context lasts."""
        yield {}

    def refused(self, program: Any, attributes: Mapping[str, Any]) -> dict[str, str]:
        """Return why the backend does not take nodes of an edge program, by name, before anything is lowered: nodes of
        the program itself, not of the branches of control flow. The program is unchanged afterwards.

        By default this asks the partitioner, offering it all nodes. A backend may have a faster way.
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
        """Return the nodes that prevent a partition's compilation, with the reason, if the backend tries the
        compilation while partitioning; else an empty mapping."""
        return {}

    def eager(self, program: Any, attributes: Mapping[str, Any]) -> tuple[Callable[..., Any], float] | None:
        """Return the form of a partition that the compiler gets, to run in eager mode, and its tolerance; None if the
        form is the partition itself."""
        return None

    def at_fault(self, program: Any, works: Callable[[Any], bool]) -> Sequence[str]:
        """Return the first nodes with which a partition does not work; none if they are not found. The search calls
        `works` for parts of the partition; `eager` returns another form of these."""
        return ()

    def refusal(self, partitioner: Any, node: Any) -> str:
        """Return why the partitioner did not take a node for which `refusals` has no reason."""
        return "not taken by the partitioner"


def _graphs(program: Any) -> Iterator[Any]:
    """Yield the graphs of a program and of the branches in it."""
    for module in program.graph_module.modules():
        if hasattr(module, "graph"):
            yield module.graph
