"""Find the first node of a program whose result differs from eager PyTorch.

The search first covers partitions and the nodes outside them: it lowers the program again with all tensors between
partitions as outputs, and runs it with the delegates of the built program. It then compiles the wrong partition again
with its nodes' results as outputs. Expected values come from the exported program in eager mode.

Inputs   those of testing/steps/pte_test.py, and
         reference.program, .weights, .debug    of the model that the test compares with
         lowered.program, .weights              of the model that the program was made from
         backend.<number>.<name>                inputs of a compile step besides the partition
Params   those of testing/steps/pte_test.py, and
         backends                               [LoweredBackend of program/documents.py]
         cpp_runtime                            true if the test ran the program with the C++ runtime
Outputs  finding                                JSON: version, message, place (`file:line` or '')
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from executorch.exir.delegate import executorch_call_delegate
from torch.export.graph_signature import OutputKind

from modelbuild.step import Step
from modelbuild_rules.kernels.steps import custom
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.model.steps.exported.program import load_program
from modelbuild_rules.program.steps.lowering import executorch_private
from modelbuild_rules.program.steps.lowering.delegation import op_name
from modelbuild_rules.program.steps.lowering.partitioning import partitioning
from modelbuild_rules.program.steps.lowering.rewrites.nonzero import correct_nonzero
from modelbuild_rules.program.steps.partition import lower
from modelbuild_rules.program.steps.partitions.files import write_partition
from modelbuild_rules.program.steps.partitions.placeholder import partition_of
from modelbuild_rules.testing.steps.bisect.origins import (
    Origin,
    advance,
    mark,
    origins,
    result_of,
    results,
    takes_from_delegate,
)
from modelbuild_rules.testing.steps.bisect.taps import relink, run_delegate, run_tapped, tap
from modelbuild_rules.testing.steps.parity.compare import compare, node_difference
from modelbuild_rules.testing.steps.parity.parity import (
    cases,
    eager_model,
    output_types,
    tolerance_of,
    wrong_metrics,
    wrong_outputs,
)
from modelbuild_rules.testing.steps.parity.programs import Arrays, Calls, method_of, open_program
from modelbuild_runtime import Program
from modelbuild_runtime.bindings import lacking_backends, lacking_kernels, to_array, to_tensor
from modelbuild_runtime.describe import MethodDescription

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import LoweredBackend
    from modelbuild_rules.testing.documents import ToleranceParams


@dataclass(frozen=True)
class Finding:
    """The result of the search: a message, and the place in the model's source."""

    message: str
    place: str = ""


@dataclass(frozen=True)
class _Failed:
    """The first case whose outputs are wrong: the inputs of its calls up to the first wrong one, whose outputs are
    `found` and `expected`."""

    name: str
    calls: Calls
    found: Arrays
    expected: Arrays
    tolerance: ToleranceParams


def run(step: Step) -> None:
    executorch_private.require()
    program = open_program(step, "program")
    method = method_of(step, program)
    lacking = [*lacking_backends(method), *lacking_kernels(method)]
    finding = _lacking(lacking) if lacking else _find(step, program)
    described = {"version": 1, "message": finding.message, "place": finding.place}
    step.outputs["finding"].write_text(json.dumps(described, indent=1) + "\n")


def _lacking(names: Sequence[str]) -> Finding:
    return Finding(f"not searched: that needs ExecuTorch's Python runtime, which lacks {', '.join(names)}")


def _find(step: Step, program: Program) -> Finding:
    """Search the first failing case. Runs the program with ExecuTorch's Python runtime, whichever ran the test."""
    eager = eager_model(step, program)
    dtypes = output_types(step, program)
    for name, calls in cases(step, program):
        fresh = open_program(step, "program")
        for number, (inputs, expected) in enumerate(zip(calls, eager(calls), strict=True), 1):
            found = fresh.run(inputs, step.params.get("method"))
            wrong = wrong_outputs(step, found, expected, dtypes)
            if not wrong and not wrong_metrics(step, found, expected):
                continue
            output = next(iter(wrong), next(iter(dtypes)))
            tolerance = tolerance_of(step, output, dtypes[output])
            failed = _Failed(name, calls[:number], found, expected, tolerance)
            with TemporaryDirectory() as folder:
                finding = _Search(step, failed, method_of(step, program), Path(folder)).find()
            call = f", call {number} of {len(calls)}" if len(calls) > 1 else ""
            return Finding(f"case {name}{call}: {finding.message}", finding.place)
    where = " in ExecuTorch's Python runtime; the test used the C++ runtime" if step.params["cpp_runtime"] else ""
    return Finding(f"parity holds in every case{where}")


@dataclass(frozen=True)
class _Point:
    """A tensor between nodes: the origin of its expected value, the node that computes it, and the call of that node's
    partition."""

    origin: Origin
    node: Any
    call: _Call | None


@dataclass(frozen=True)
class _Call:
    """A call of a partition: its module, and the names of its arguments."""

    module: Any
    arguments: tuple[str, ...]


class _Search:
    def __init__(self, step: Step, failed: _Failed, method: MethodDescription, folder: Path) -> None:
        ports = [port for port in method.inputs if port.kind == "tensor"]
        self._step = step
        self._method = method.name
        self._failed = failed
        self._folder = folder
        self._calls = [[inputs[port.name] for port in ports] for inputs in failed.calls]
        self._arrays = self._calls[-1]
        custom.load(step.root, step.params["eager"].get("kernels", ()))
        self._exported = load_program(step.input("reference.program"), step.input("reference.weights"))
        *before, self._tensors = (
            [to_tensor(array, port) for array, port in zip(arrays, ports, strict=True)] for arrays in self._calls
        )
        self._state = advance(self._exported, before)
        self._debug = json.loads(step.input("reference.debug").read_bytes())
        self._entries: Sequence[LoweredBackend] = step.params["backends"]
        self._backends = {i: b for i, entry in enumerate(self._entries) if (b := partitioning(entry)) is not None}

    def find(self) -> Finding:
        own = load_program(self._step.input("lowered.program"), self._step.input("lowered.weights"))
        mark(own)
        partitions = self._folder / "partitions"
        partitions.mkdir()
        edge, _, kept = lower(correct_nonzero(own), self._entries, self._backends, partitions, self._step.progress)
        places = {each["id"]: each["entry"] for each in kept.plan(self._entries)}
        lowered = edge.exported_program()
        known = origins(lowered, self._exported)
        points = dict(_points(lowered, known))
        stored = _stored(lowered, self._state)
        names = tap(lowered)
        data = self._step.input("program.ptd") if "program.ptd" in self._step.inputs else None
        user_inputs = lowered.graph_signature.user_inputs
        given = run_tapped(
            relink(edge, self._step.input("program.pte"), self._method, self._folder), data, names, self._calls
        )  # rewrites the lowered graph
        arrays = stored | dict(zip(user_inputs, self._arrays, strict=False)) | dict(given)
        expected, values = results(self._exported, self._tensors, {p.origin.node for p in points.values()})
        kinds = (spec.kind for spec in self._exported.graph_signature.output_specs)
        outputs = [value for kind, value in zip(kinds, values, strict=True) if kind == OutputKind.USER_OUTPUT]
        problem = self._exported_wrong(outputs)
        if problem:
            return Finding(f"the exported program differs from the model, both in eager mode: {problem}")
        for name, point in points.items():
            difference = self._node_difference(arrays[name], expected, point.origin) if name in arrays else ""
            if not difference:
                continue
            if point.call is None:
                return self._finding(point.node, point.origin, "outside partitions (portable)", difference)
            id = partition_of(point.call.module.processed_bytes) or ""
            where = f"in partition {id} ({self._entries[places[id]]['kind']})"
            inside = self._inside(point.call, places[id], arrays, known, where)
            if isinstance(inside, Finding):
                return inside
            at = self._finding(point.node, point.origin, where, difference)
            return Finding(f"{at.message}; {inside}", at.place)
        return Finding(self._no_wrong_node([array for _, array in given]))

    def _inside(
        self, call: _Call, entry: int, arrays: Mapping[str, Any], known: Mapping[Any, Origin], where: str
    ) -> Finding | str:
        """Return the first wrong node of a partition, or the reason why it is unknown."""
        if not all(name in arrays for name in call.arguments):
            return "its nodes were not checked: it takes sizes besides tensors"
        program = call.module.original_module
        annotated = self._backends[entry].annotations
        own = {n.name: n for n in program.graph.nodes if n in known and not any(n.meta.get(key) for key in annotated)}
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
            given = run_delegate(call.module, compiled, names, [arrays[name] for name in call.arguments])
        except Exception as error:  # of a backend that can't make every result inside a partition an output
            return f"its nodes' results cannot be read: {first_line(error)}"
        expected, _ = results(self._exported, self._tensors, {known[node].node for node in own.values()})
        for name, array in given:
            difference = self._node_difference(array, expected, known[own[name]])
            if difference:
                return self._finding(own[name], known[own[name]], where, difference)
        return "compiled again with their results as outputs, all its nodes are right"

    def _node_difference(self, array: Any, expected: Mapping[str, Any], origin: Origin) -> str:
        return node_difference(array, to_array(result_of(expected, origin)), self._failed.tolerance)

    def _finding(self, node: Any, origin: Origin, where: str, difference: str) -> Finding:
        fact = self._debug.get(origin.node, {})
        module = f" of {fact['module']}" if fact.get("module") else ""
        operator = op_name(node.args[0] if origin.index is not None else node)
        return Finding(
            f"first wrong node: {origin.node} ({operator}){module}, {where}: it {difference}", fact.get("source", "")
        )

    def _exported_wrong(self, outputs: list[Any]) -> str:
        for (name, wanted), value in zip(self._failed.expected.items(), outputs, strict=False):
            difference = node_difference(to_array(value), wanted, self._failed.tolerance)
            if difference:
                return f"output '{name}' {difference}"
        return ""

    def _no_wrong_node(self, given: list[Any]) -> str:
        """Return the finding if every node is within tolerance."""
        for (name, wanted), found in zip(self._failed.expected.items(), given, strict=False):
            if compare(found, wanted, self._failed.tolerance):
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


def _stored(program: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constants of a lowered program, by the names of its placeholders. `state`: changed buffers by name."""
    values = {**program.constants, **program.state_dict, **state}
    return {s.arg.name: to_array(values[s.target]) for s in program.graph_signature.input_specs if s.target in values}
