"""Search a lowered program for its first wrong node: lower it again, tap it, and judge the values of its tensors."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.exir.delegate import executorch_call_delegate
from torch.export.graph_signature import OutputKind

from modelbuild.step import Step
from modelbuild_rules.kernels.steps import custom
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.model.steps.exported.program import load_program
from modelbuild_rules.program.steps.lowering.delegation import op_name
from modelbuild_rules.program.steps.lowering.partitioning import Partitioning, partitioning
from modelbuild_rules.program.steps.lowering.rewrites.nonzero import correct_nonzero
from modelbuild_rules.program.steps.partition import lower
from modelbuild_rules.program.steps.partitions.files import write_partition
from modelbuild_rules.program.steps.partitions.placeholder import partition_of
from modelbuild_rules.testing.steps.bisect.finding import Finding, Node, Nodes
from modelbuild_rules.testing.steps.bisect.origins import (
    Origin,
    advance,
    mark,
    origins,
    result_of,
    results,
    takes_from_delegate,
)
from modelbuild_rules.testing.steps.bisect.taps import relink, tap, write_delegate
from modelbuild_rules.testing.steps.parity.compare import compare, node_difference
from modelbuild_rules.testing.steps.parity.programs import Arrays, Calls
from modelbuild_runtime.bindings import to_array, to_tensor
from modelbuild_runtime.describe import MethodDescription

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import LoweredBackend
    from modelbuild_rules.testing.documents import ToleranceParams


@dataclass(frozen=True)
class Failed:
    """The first case whose outputs are wrong: the inputs of its calls up to the first wrong one, whose outputs are
    `found` and `expected`."""

    calls: Calls
    found: Arrays
    expected: Arrays
    tolerance: ToleranceParams


@dataclass(frozen=True)
class Lowered:
    """The model of the program, lowered again: the edge program, and the place in its stack of each partition's
    backend."""

    edge: Any
    places: Mapping[str, int]
    backends: Mapping[int, Partitioning]

    @classmethod
    def again(cls, step: Step, folder: Path) -> Lowered:
        """Lower the model of a step's inputs, as the step partition.py did."""
        custom.load(step.root, step.params["eager"].get("kernels", ()))
        entries: Sequence[LoweredBackend] = step.params["backends"]
        backends = {i: b for i, entry in enumerate(entries) if (b := partitioning(entry)) is not None}
        own = load_program(step.input("lowered.program"), step.input("lowered.weights"))
        mark(own)
        partitions = folder / "partitions"
        partitions.mkdir()
        edge, _, kept = lower(correct_nonzero(own), entries, backends, partitions, step.progress)
        return cls(edge, {each["id"]: each["entry"] for each in kept.plan(entries)}, backends)

    def tapped(self, built: Path, method: str, folder: Path) -> Path:
        """Write the program whose graph tap() changed, with the delegates of a built program. This changes the graph
        again."""
        return relink(self.edge, built, method, folder)


@dataclass(frozen=True)
class Inside:
    """A wrong partition: its program alone, with its nodes' results as outputs, and its inputs."""

    program: Path
    inputs: Sequence[Any]
    nodes: Nodes


@dataclass(frozen=True)
class _Call:
    """A call of a partition: its module, and the names of its arguments."""

    module: Any
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class _Point:
    """A tensor between nodes: the origin of its expected value, the node that computes it, and the call of that node's
    partition."""

    origin: Origin
    node: Any
    call: _Call | None


class Search:
    """A search of one program. Its graph is tapped: `tapped()` writes the program to run, and `judge()` takes the
    outputs of that run."""

    def __init__(self, step: Step, method: MethodDescription, folder: Path) -> None:
        self._step = step
        self._method = method
        self._folder = folder
        self._debug = json.loads(step.input("reference.debug").read_bytes())
        self._entries: Sequence[LoweredBackend] = step.params["backends"]
        self._lowered = Lowered.again(step, folder)
        self._exported = load_program(step.input("reference.program"), step.input("reference.weights"))
        program = self._lowered.edge.exported_program()
        self._known = origins(program, self._exported)
        self._points = dict(_points(program, self._known))
        values = {**program.constants, **program.state_dict}
        specs = program.graph_signature.input_specs
        self._buffers = {spec.target: spec.arg.name for spec in specs if spec.target is not None}
        self._stored = {self._buffers[name]: to_array(each) for name, each in values.items() if name in self._buffers}
        self.names = tap(program)
        self._inputs = program.graph_signature.user_inputs

    def tapped(self) -> Path:
        """Write the program with all tensors between partitions as outputs, called `names`."""
        return self._lowered.tapped(self._step.input("program.pte"), self._method.name, self._folder)

    def judge(self, failed: Failed, given: Sequence[Any]) -> Finding | Inside:
        """Return the first wrong node, or the partition that contains it, from the outputs of the tapped program."""
        ports = [port for port in self._method.inputs if port.kind == "tensor"]
        calls = [[inputs[port.name] for port in ports] for inputs in failed.calls]
        *before, tensors = (
            [to_tensor(array, port) for array, port in zip(arrays, ports, strict=True)] for arrays in calls
        )
        state = {self._buffers[name]: to_array(each) for name, each in advance(self._exported, before).items()}
        own = dict(zip(self._inputs, calls[-1], strict=False))
        arrays = self._stored | state | own | dict(zip(self.names, given, strict=True))
        expected, values = results(self._exported, tensors, {p.origin.node for p in self._points.values()})
        kinds = (spec.kind for spec in self._exported.graph_signature.output_specs)
        outputs = [value for kind, value in zip(kinds, values, strict=True) if kind == OutputKind.USER_OUTPUT]
        problem = _exported_wrong(failed, outputs)
        if problem:
            return Finding(f"the exported program differs from the model, both in eager mode: {problem}")
        for name, point in self._points.items():
            if name not in arrays:
                continue
            right = to_array(result_of(expected, point.origin))
            difference = node_difference(arrays[name], right, failed.tolerance)
            if not difference:
                continue
            if point.call is None:
                return self._node(point.node, point.origin, "outside partitions (portable)").finding(difference)
            id = partition_of(point.call.module.processed_bytes) or ""
            place = self._lowered.places[id]
            where = f"in partition {id} ({self._entries[place]['kind']})"
            at = self._node(point.node, point.origin, where).finding(difference)
            inside = self._inside(point.call, place, arrays, where, tensors, at, failed)
            return inside if isinstance(inside, Inside) else at.with_reason(inside)
        return Finding(_no_wrong_node(failed, given))

    def _inside(
        self,
        call: _Call,
        entry: int,
        arrays: Mapping[str, Any],
        where: str,
        tensors: list[Any],
        at: Finding,
        failed: Failed,
    ) -> Inside | str:
        """Compile a partition with its nodes' results as outputs; return the reason if it can't be."""
        if not all(name in arrays for name in call.arguments):
            return "its nodes were not checked: it takes sizes besides tensors"
        program = call.module.original_module
        annotated = self._lowered.backends[entry].annotations
        own = {
            n.name: n for n in program.graph.nodes if n in self._known and not any(n.meta.get(key) for key in annotated)
        }
        names = tap(program, set(own.values()))
        partition, compiled = self._folder / "partition", self._folder / "compiled"
        compiled.mkdir()
        write_partition(program, call.module.compile_specs, annotated, partition)
        prefix = f"backend.{entry}."
        more = {n.removeprefix(prefix): paths for n, paths in self._step.inputs.items() if n.startswith(prefix)}
        params = {"attributes": self._entries[entry]["compiled"]}
        inputs = {"partition": (partition,), **more}
        part = Step(params, inputs, {"compiled": compiled}, self._step.root, show=self._step.show)
        try:
            importlib.import_module(self._entries[entry]["compiling"]).run(part)
            path = write_delegate(call.module, compiled)
        except Exception as error:  # of a backend that can't make every result inside a partition an output
            return f"its nodes' results cannot be read: {first_line(error)}"
        expected, _ = results(self._exported, tensors, {self._known[node].node for node in own.values()})
        nodes = []
        for name in names:
            origin = self._known[own[name]]
            nodes.append((self._node(own[name], origin, where), to_array(result_of(expected, origin))))
        return Inside(path, [arrays[name] for name in call.arguments], Nodes(nodes, at, failed.tolerance))

    def _node(self, node: Any, origin: Origin, where: str) -> Node:
        fact = self._debug.get(origin.node, {})
        module = f" of {fact['module']}" if fact.get("module") else ""
        operator = op_name(node.args[0] if origin.index is not None else node)
        return Node(f"{origin.node} ({operator}){module}, {where}", fact.get("source", ""))


def _exported_wrong(failed: Failed, outputs: list[Any]) -> str:
    for (name, wanted), value in zip(failed.expected.items(), outputs, strict=False):
        difference = node_difference(to_array(value), wanted, failed.tolerance)
        if difference:
            return f"output '{name}' {difference}"
    return ""


def _no_wrong_node(failed: Failed, given: Sequence[Any]) -> str:
    """Return the finding if every node is within tolerance."""
    for (name, wanted), found in zip(failed.expected.items(), given, strict=False):
        if compare(found, wanted, failed.tolerance):
            return f"no single node exceeds the tolerance; small differences add up to that of output '{name}'"
    return "lowered and linked again with the same delegates, the program is right; the tested file is not"


def _points(program: Any, known: Mapping[Any, Origin]) -> Iterator[tuple[str, _Point]]:
    """Yield the tensors between the nodes of a lowered program, in order, each with its node's name."""
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target is executorch_call_delegate:
            continue
        call, inner = _producer(program, node)
        if inner in known:
            yield node.name, _Point(known[inner], inner, call)


def _producer(program: Any, node: Any) -> tuple[_Call | None, Any]:
    """Return the node that computes a node's value, and the call of the partition around it (None if outside)."""
    if not takes_from_delegate(node):
        return None, node
    source = node.args[0]
    module = getattr(program.graph_module, source.args[0].target)
    arguments = tuple(getattr(each, "name", "") for each in source.args[1:])
    return _Call(module, arguments), module.original_module.graph.output_node().args[0][node.args[1]]
