"""Finds the first node of a program whose result is not what it is in eager PyTorch: among partitions and the nodes
outside them first, then inside the partition.

The program is lowered once more, with all that passes between partitions as outputs, and run with the delegates of the
built one; a partition that is wrong is compiled once more with its nodes' results as outputs. What each should give
comes from the exported program in eager mode.

Inputs   as testing/steps/pte_test.py has them, and
         reference.program, .weights, .debug    of the model that the test compares with
         lowered.program, .weights              of the model that the program was made of
         backend.<number>.<name>                what compiling takes beside a partition
Params   as testing/steps/pte_test.py has them, and
         backends                               [{kind, partitioning, attributes, compiling, compiled}]: the step that
                                                compiles, and what it gets
         cpp_runtime                            whether the test had the C++ runtime run the program
Outputs  finding                                JSON: version, message, place (`file:line` or '')
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from executorch.exir.delegate import executorch_call_delegate

from modelbuild.step import Step
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.model.steps.exported.program import load_program
from modelbuild_rules.program.steps.lowering import executorch_private
from modelbuild_rules.program.steps.lowering.delegation import op_name
from modelbuild_rules.program.steps.lowering.nonzero import correct_nonzero
from modelbuild_rules.program.steps.lowering.partitioning import partitioning
from modelbuild_rules.program.steps.partition import lower
from modelbuild_rules.program.steps.partitions.files import write_partition
from modelbuild_rules.program.steps.partitions.placeholder import partition_of
from modelbuild_rules.testing.steps.bisect.origins import Origin, mark, origins, result_of, results, takes_from_delegate
from modelbuild_rules.testing.steps.bisect.taps import link_again, run_delegate, run_tapped, tap
from modelbuild_rules.testing.steps.parity.compare import compare, strays
from modelbuild_rules.testing.steps.parity.parity import (
    cases,
    eager_model,
    tensor_inputs,
    tolerance_of,
    wrong_metrics,
    wrong_outputs,
)
from modelbuild_rules.testing.steps.parity.programs import Arrays, open_program
from modelbuild_runtime import Program
from modelbuild_runtime.bindings import lacking_backends, to_array, to_tensor
from modelbuild_runtime.describe import Port


@dataclass(frozen=True)
class Finding:
    """What is wrong, in a line, and where in the model's source."""

    message: str
    place: str = ""


@dataclass(frozen=True)
class _Failed:
    """The first case whose outputs are wrong."""

    name: str
    inputs: Arrays
    found: Arrays
    expected: Arrays
    tolerance: Mapping[str, Any]


def run(step: Step) -> None:
    executorch_private.require()
    program = open_program(step, "program")
    lacking = lacking_backends(program.describe().method("forward"))
    finding = _lacking(lacking) if lacking else _find(step, program)
    described = {"version": 1, "message": finding.message, "place": finding.place}
    step.outputs["finding"].write_text(json.dumps(described, indent=1) + "\n")


def _lacking(backends: Sequence[str]) -> Finding:
    return Finding(f"not looked for: it takes ExecuTorch's Python runtime, which lacks {', '.join(backends)}")


def _find(step: Step, program: Program) -> Finding:
    """By ExecuTorch's Python runtime, whatever ran the test."""
    eager = eager_model(step, program)
    for name, inputs in cases(step, program):
        found, expected = open_program(step, "program").run(inputs), eager(inputs)
        wrong = wrong_outputs(step, found, expected)
        if wrong or wrong_metrics(step, found, expected):
            tolerance = tolerance_of(step, next(iter(wrong))) if wrong else step.params["tolerance"]
            failed = _Failed(name, inputs, found, expected, tolerance)
            with TemporaryDirectory() as folder:
                finding = _Search(step, failed, tensor_inputs(program), Path(folder)).find()
            return Finding(f"case {name}: {finding.message}", finding.place)
    where = " in ExecuTorch's Python runtime; the test used the C++ runtime" if step.params["cpp_runtime"] else ""
    return Finding(f"parity holds in every case{where}")


@dataclass(frozen=True)
class _Point:
    """A tensor that passes between nodes: what it should be, the node that computes it, and the call of the partition
    that this lies in."""

    origin: Origin
    node: Any
    call: _Call | None


@dataclass(frozen=True)
class _Call:
    """A partition where it is called: its module, and the names of what it is given."""

    module: Any
    arguments: tuple[str, ...]


class _Search:
    def __init__(self, step: Step, failed: _Failed, ports: Sequence[Port], folder: Path) -> None:
        self._step = step
        self._failed = failed
        self._folder = folder
        self._arrays = [failed.inputs[port.name] for port in ports]
        self._tensors = [to_tensor(array, port) for array, port in zip(self._arrays, ports, strict=True)]
        self._exported = load_program(step.input("reference.program"), step.input("reference.weights"))
        self._debug = json.loads(step.input("reference.debug").read_bytes())
        self._entries = step.params["backends"]
        self._backends = {i: b for i, entry in enumerate(self._entries) if (b := partitioning(entry)) is not None}

    def find(self) -> Finding:
        own = load_program(self._step.input("lowered.program"), self._step.input("lowered.weights"))
        mark(own)
        partitions = self._folder / "partitions"
        partitions.mkdir()
        edge, _, kept = lower(correct_nonzero(own), self._entries, self._backends, partitions)
        places = {each["id"]: each["entry"] for each in kept.plan(self._entries)}
        lowered = edge.exported_program()
        known = origins(lowered, self._exported)
        points = dict(_points(lowered, known))
        stored = _stored(lowered)
        names = tap(lowered)
        data = self._step.input("program.ptd") if "program.ptd" in self._step.inputs else None
        user_inputs = lowered.graph_signature.user_inputs
        given = run_tapped(
            link_again(edge, self._step.input("program.pte"), self._folder), data, names, self._arrays
        )  # which rewrites the lowered graph
        arrays = stored | dict(zip(user_inputs, self._arrays, strict=False)) | dict(given)
        expected, outputs = results(self._exported, self._tensors, {p.origin.node for p in points.values()})
        problem = self._exported_wrong(outputs)
        if problem:
            return Finding(f"the exported program, in eager mode, is not the model: {problem}")
        for name, point in points.items():
            stray = self._strays(arrays[name], expected, point.origin) if name in arrays else ""
            if not stray:
                continue
            if point.call is None:
                return self._finding(point.node, point.origin, "outside partitions (portable)", stray)
            id = partition_of(point.call.module.processed_bytes) or ""
            where = f"in partition {id} ({self._entries[places[id]]['kind']})"
            inside = self._inside(point.call, places[id], arrays, known, where)
            if isinstance(inside, Finding):
                return inside
            at = self._finding(point.node, point.origin, where, stray)
            return Finding(f"{at.message}; {inside}", at.place)
        return Finding(self._nothing([array for _, array in given]))

    def _inside(
        self, call: _Call, entry: int, arrays: Mapping[str, Any], known: Mapping[Any, Origin], where: str
    ) -> Finding | str:
        """The first wrong node of a partition; or why it is not known."""
        if not all(name in arrays for name in call.arguments):
            return "its nodes were not looked at: it takes sizes besides tensors"
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
        part = Step(params, {"partition": (partition,), **more}, {"compiled": compiled}, self._step.root)
        try:
            importlib.import_module(self._entries[entry]["compiling"]).run(part)
            given = run_delegate(call.module, compiled, names, [arrays[name] for name in call.arguments])
        except Exception as error:  # of a backend: not every result inside a partition can be an output of it
            return f"its nodes' results cannot be seen: {first_line(error)}"
        expected, _ = results(self._exported, self._tensors, {known[node].node for node in own.values()})
        for name, array in given:
            stray = self._strays(array, expected, known[own[name]])
            if stray:
                return self._finding(own[name], known[own[name]], where, stray)
        return "compiled anew with their results in view, its nodes are right one by one"

    def _strays(self, array: Any, expected: Mapping[str, Any], origin: Origin) -> str:
        return strays(array, to_array(result_of(expected, origin)), self._failed.tolerance)

    def _finding(self, node: Any, origin: Origin, where: str, stray: str) -> Finding:
        fact = self._debug.get(origin.node, {})
        module = f" of {fact['module']}" if fact.get("module") else ""
        operator = op_name(node.args[0] if origin.index is not None else node)
        return Finding(
            f"first wrong node: {origin.node} ({operator}){module}, {where}: it {stray}", fact.get("source", "")
        )

    def _exported_wrong(self, outputs: list[Any]) -> str:
        for (name, wanted), value in zip(self._failed.expected.items(), outputs, strict=False):
            stray = strays(to_array(value), wanted, self._failed.tolerance)
            if stray:
                return f"output '{name}' {stray}"
        return ""

    def _nothing(self, given: list[Any]) -> str:
        """Why no node is to blame."""
        for (name, wanted), found in zip(self._failed.expected.items(), given, strict=False):
            if compare(found, wanted, self._failed.tolerance):
                return f"no node leaves the tolerance by itself; small differences add up to that of output '{name}'"
        return "lowered and linked anew, with the delegates of the file, the program is right; the file is not"


def _points(program: Any, known: Mapping[Any, Origin]) -> Iterator[tuple[str, _Point]]:
    """What passes between the nodes of a lowered program, in order, by the name of the node that gives it."""
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target is executorch_call_delegate:
            continue
        call, inner = _taken(program, node)
        if inner in known:
            yield node.name, _Point(known[inner], inner, call)


def _taken(program: Any, node: Any) -> tuple[_Call | None, Any]:
    """The call of a partition that a node takes a result from, and the partition's node that computes it."""
    if not takes_from_delegate(node):
        return None, node
    source = node.args[0]
    module = getattr(program.graph_module, source.args[0].target)
    arguments = tuple(getattr(each, "name", "") for each in source.args[1:])
    return _Call(module, arguments), module.original_module.graph.output_node().args[0][node.args[1]]


def _stored(program: Any) -> dict[str, Any]:
    """The constants of a lowered program by the names of its placeholders."""
    values = {**program.constants, **program.state_dict}
    return {s.arg.name: to_array(values[s.target]) for s in program.graph_signature.input_specs if s.target in values}
