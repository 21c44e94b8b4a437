"""Search a lowered program for its first wrong node: lower it again, tap it, and judge the values of its tensors."""

from __future__ import annotations

import importlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.delegate import executorch_call_delegate
from torch.export.graph_signature import OutputKind

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.nodes import op_name
from modelbuild_rules.backend_api.steps.partition_files import write_partition
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.model.steps.eager.tensors import to_array, to_tensor
from modelbuild_rules.model.steps.exported.program import load_program
from modelbuild_rules.operators.steps import custom
from modelbuild_rules.program.steps.lowering.pipeline import StackLowering
from modelbuild_rules.program.steps.lowering.stack import Stack, StackBackend
from modelbuild_rules.program.steps.partitions.placeholder import partition_of
from modelbuild_rules.testing.steps.bisect.finding import Finding, Node, Nodes
from modelbuild_rules.testing.steps.bisect.origins import (
    Origin,
    advance,
    has_computed_range,
    leading_to,
    mark,
    origins,
    result_of,
    results,
    set_state,
    takes_from_delegate,
)
from modelbuild_rules.testing.steps.bisect.taps import relink, tap, write_delegate
from modelbuild_rules.testing.steps.parity.compare import compare, node_difference
from modelbuild_rules.testing.steps.parity.programs import Arrays, Call, Calls, Results, methods_of, tensor_ports
from modelbuild_runtime import Description
from modelbuild_runtime.describe import MethodDescription

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import LoweredBackend
    from modelbuild_rules.testing.documents import ToleranceParams


@dataclass(frozen=True)
class Failed:
    """The first case whose outputs are wrong: its calls up to the first wrong call, with the expected outputs of each,
    and the tolerance of a wrong output."""

    calls: Calls
    expected: Results
    tolerance: ToleranceParams


def lower_again(step: Step, method: str, folder: Path) -> StackLowering:
    """Lower the model of a method, as the step partition.py did."""
    custom.load(step.root, step.params["methods"][method]["eager"].get("kernels", ()))
    stack = Stack.load(step.params["backends"][method])
    own = load_program(step.input(f"lowered.{method}.program"), step.input(f"lowered.{method}.weights"))
    mark(own)
    partitions = folder / f"partitions.{method}"
    partitions.mkdir()
    lowering = StackLowering(own, stack, partitions, step.progress)
    lowering.lower()
    return lowering


def write_tapped(step: Step, lowered: Mapping[str, StackLowering], names: Mapping[str, str], folder: Path) -> Path:
    """Write the program of methods whose graphs tap() changed, with the delegates of the built program. `names` are
    their names in the built program. This changes the graphs again."""
    edges = {names[method]: each.edge for method, each in lowered.items()}
    modules = {names[method]: step.params["modules"][method] for method in lowered}
    return relink(edges, modules, step.input("program.pte"), folder)


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
    """A search of the methods that a test calls. Their graphs are tapped: `tapped()` writes the program to run, and
    `judge()` takes the outputs of its calls."""

    def __init__(self, step: Step, program: Description, folder: Path) -> None:
        self._step = step
        self._folder = folder
        self._described = methods_of(program, step.params["methods"])
        self._methods = {name: _Method(step, name, each, folder) for name, each in self._described.items()}

    def names(self, method: str) -> list[str]:
        """Return the names of the outputs of a tapped method."""
        return self._methods[method].names

    def tapped(self) -> Path:
        """Write the program with all tensors between partitions as outputs."""
        names = {name: each.name for name, each in self._described.items()}
        lowered = {name: each.lowered for name, each in self._methods.items()}
        return write_tapped(self._step, lowered, names, self._folder)

    def arguments(self, calls: Calls) -> list[tuple[str, list[Any]]]:
        """Return the arguments of the tapped program for calls of the test."""
        return [
            (
                self._described[call.method].name,
                [call.inputs[port.name] for port in tensor_ports(self._described[call.method])],
            )
            for call in calls
        ]

    def judge(self, failed: Failed, given: Sequence[Sequence[Any]]) -> tuple[Finding | Inside, int]:
        """Return the first wrong node, or the partition that contains it, from the outputs of each call of the tapped
        program; and the number of its call: the first call that leaves a wrong state, or else the last call."""
        states: dict[int, dict[str, torch.Tensor]] = {}
        for number, (call, expected, values) in enumerate(zip(failed.calls, failed.expected, given, strict=True), 1):
            method = self._methods[call.method]
            state = states.setdefault(self._step.params["methods"][call.method]["module"], {})
            verdict = method.judge(call, expected, values, state, failed.tolerance, number == len(given))
            if verdict is not None:
                return verdict, number
        raise AssertionError("the last call is always judged")


class _Method:
    """A tapped method, and its model as an exported program."""

    def __init__(self, step: Step, method: str, described: MethodDescription, folder: Path) -> None:
        self._step = step
        self._method = method
        self._described = described
        self._folder = folder
        prefix = f"reference.{method}."
        self._debug = json.loads(step.input(f"{prefix}debug").read_bytes())
        self._entries: Sequence[LoweredBackend] = step.params["backends"][method]
        self.lowered = lower_again(step, method, folder)
        self._exported = load_program(step.input(f"{prefix}program"), step.input(f"{prefix}weights"))
        program = self.lowered.edge.exported_program()
        self._known = origins(program, self._exported)
        self._points = dict(_points(program, self._known))
        values = {**program.constants, **program.state_dict}
        signature = program.graph_signature
        self._buffers = {spec.target: spec.arg.name for spec in signature.input_specs if spec.target is not None}
        self._stored = {self._buffers[name]: to_array(each) for name, each in values.items() if name in self._buffers}
        self._changed = dict(signature.buffers_to_mutate)
        self.names = tap(program)
        self._inputs = program.graph_signature.user_inputs

    def judge(
        self,
        call: Call,
        expected: Arrays,
        given: Sequence[Any],
        state: dict[str, torch.Tensor],
        tolerance: ToleranceParams,
        last: bool,
    ) -> Finding | Inside | None:
        """Return the first wrong node of a call, or the partition that contains it. Unless it is the last call, advance
        the state of its module, and return None if the call leaves the right state."""
        ports = tensor_ports(self._described)
        tensors = [to_tensor(call.inputs[port.name], port) for port in ports]
        set_state(self._exported, state)
        before = {self._buffers[name]: to_array(each) for name, each in state.items() if name in self._buffers}
        own = dict(zip(self._inputs, (call.inputs[port.name] for port in ports), strict=False))
        arrays = self._stored | before | own | dict(zip(self.names, given, strict=True))
        if not last:
            changed = advance(self._exported, tensors)
            left = {node: to_array(changed[name]) for node, name in self._changed.items() if name in changed}
            if not any(node in arrays and node_difference(arrays[node], left[node], tolerance) for node in left):
                state |= changed
                return None
        return self._first_wrong(tensors, expected, given, arrays, tolerance)

    def _first_wrong(
        self,
        tensors: list[torch.Tensor],
        wanted: Arrays,
        given: Sequence[Any],
        arrays: Mapping[str, Any],
        tolerance: ToleranceParams,
    ) -> Finding | Inside:
        expected, values = results(self._exported, tensors, {p.origin.node for p in self._points.values()})
        kinds = (spec.kind for spec in self._exported.graph_signature.output_specs)
        outputs = [value for kind, value in zip(kinds, values, strict=True) if kind == OutputKind.USER_OUTPUT]
        problem = _exported_wrong(wanted, tolerance, outputs)
        if problem:
            return Finding(f"the exported program differs from the model, both in eager mode: {problem}")
        leading = self._leading(wanted, given, tolerance)
        for name, point in self._points.items():
            if name not in arrays or point.origin.node not in leading:
                continue
            right = to_array(result_of(expected, point.origin))
            difference = node_difference(arrays[name], right, tolerance)
            if not difference:
                continue
            if point.call is None:
                return self._node(point.node, point.origin, "outside partitions (portable)", "").finding(difference)
            id = partition_of(point.call.module.processed_bytes) or ""
            backend = self.lowered.partitions.backend(id)
            where = f"in partition {id} ({backend.kind})"
            at = self._node(point.node, point.origin, where, backend.kind).finding(difference)
            inside = self._inside(point.call, backend, arrays, where, tensors, at, tolerance, leading)
            return inside if isinstance(inside, Inside) else at.with_reason(inside)
        return Finding(_no_wrong_node(wanted, tolerance, given))

    def _leading(self, wanted: Arrays, given: Sequence[Any], tolerance: ToleranceParams) -> frozenset[str]:
        """Return the nodes that lead to a wrong output; all nodes if the state or a metric is wrong instead. A node of
        another output may differ without consequences."""
        pairs = zip(wanted.values(), given, strict=False)
        return leading_to(self._exported, [bool(compare(found, right, tolerance)) for right, found in pairs])

    def _inside(
        self,
        call: _Call,
        backend: StackBackend,
        arrays: Mapping[str, Any],
        where: str,
        tensors: list[Any],
        at: Finding,
        tolerance: ToleranceParams,
        leading: Collection[str],
    ) -> Inside | str:
        """Compile a partition with its nodes' results as outputs; return the reason if this is impossible."""
        if not all(name in arrays for name in call.arguments):
            return "its nodes were not checked: it takes sizes besides tensors"
        program = call.module.original_module
        annotated = backend.partitioning.annotations
        entry = self._entries[backend.number]
        own = {
            n.name: n
            for n in program.graph.nodes
            if n in self._known
            and self._known[n].node in leading
            and not any(n.meta.get(key) for key in annotated)
            and not has_computed_range(n)
        }
        names = tap(program, set(own.values()))
        partition, compiled = self._folder / "partition", self._folder / "compiled"
        compiled.mkdir()
        write_partition(program, call.module.compile_specs, annotated, partition)
        prefix = f"backend.{self._method}.{backend.number}."
        more = {n.removeprefix(prefix): paths for n, paths in self._step.inputs.items() if n.startswith(prefix)}
        try:
            self._compile(entry, partition, more, compiled)
            path = write_delegate(call.module, compiled)
        except Exception as error:  # exceptions of a backend that cannot make every result inside a partition an output
            return f"its nodes' results cannot be read: {first_line(error)}"
        expected, _ = results(self._exported, tensors, {self._known[node].node for node in own.values()})
        nodes = []
        for name in names:
            origin = self._known[own[name]]
            node = self._node(own[name], origin, where, backend.kind)
            nodes.append((node, to_array(result_of(expected, origin))))
        return Inside(path, [arrays[name] for name in call.arguments], Nodes(nodes, at, tolerance))

    def _compile(
        self, entry: LoweredBackend, partition: Path, more: Mapping[str, tuple[Path, ...]], compiled: Path
    ) -> None:
        """Run a backend's compile step, and the step that stores the weights if it has one."""
        params, root, show = {"attributes": entry["compiled"]}, self._step.root, self._step.show
        compiling = importlib.import_module(entry["compiling"])
        if not entry["storing"]:
            compiling.run(Step(params, {"partition": (partition,), **more}, {"compiled": compiled}, root, show=show))
            return
        (code := self._folder / "code").mkdir()
        compiling.run(Step(params, {"program": (partition / "program",), **more}, {"code": code}, root, show=show))
        inputs = {"code": (code,), "partition": (partition,)}
        importlib.import_module(entry["storing"]).run(Step({}, inputs, {"compiled": compiled}, root, show=show))

    def _node(self, node: Any, origin: Origin, where: str, backend: str) -> Node:
        fact = self._debug.get(origin.node, {})
        module = f" of {fact['module']}" if fact.get("module") else ""
        operator = op_name(node.args[0] if origin.index is not None else node)
        return Node(origin.node, operator, f"{module}, {where}", backend, fact.get("source", ""))


def _exported_wrong(expected: Arrays, tolerance: ToleranceParams, outputs: list[Any]) -> str:
    for (name, wanted), value in zip(expected.items(), outputs, strict=False):
        difference = node_difference(to_array(value), wanted, tolerance)
        if difference:
            return f"output '{name}' {difference}"
    return ""


def _no_wrong_node(expected: Arrays, tolerance: ToleranceParams, given: Sequence[Any]) -> str:
    """Return the finding if every node is within tolerance."""
    for (name, wanted), found in zip(expected.items(), given, strict=False):
        if compare(found, wanted, tolerance):
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
