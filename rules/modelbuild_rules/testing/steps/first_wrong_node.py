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

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.program.steps.lowering import executorch_private
from modelbuild_rules.testing.steps.bisect.finding import Finding
from modelbuild_rules.testing.steps.bisect.search import Failed, Inside, Search
from modelbuild_rules.testing.steps.bisect.taps import run_tapped
from modelbuild_rules.testing.steps.parity.parity import (
    cases,
    eager_model,
    output_types,
    tolerance_of,
    wrong_metrics,
    wrong_outputs,
)
from modelbuild_rules.testing.steps.parity.programs import method_of, open_program
from modelbuild_runtime import Program
from modelbuild_runtime.bindings import lacking_backends, lacking_kernels


def run(step: Step) -> None:
    executorch_private.require()
    program = open_program(step, "program")
    method = method_of(step, program)
    lacking = [*lacking_backends(method), *lacking_kernels(method)]
    finding = _lacking(lacking) if lacking else _find(step, program)
    finding.write(step.outputs["finding"])


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
            failed = Failed(calls[:number], found, expected, tolerance)
            with TemporaryDirectory() as folder:
                finding = _search(step, program, failed, Path(folder))
            return finding.of_case(name, number, len(calls))
    where = " in ExecuTorch's Python runtime; the test used the C++ runtime" if step.params["cpp_runtime"] else ""
    return Finding(f"parity holds in every case{where}")


def _search(step: Step, program: Program, failed: Failed, folder: Path) -> Finding:
    method = method_of(step, program)
    search = Search(step, method, folder)
    ports = [port for port in method.inputs if port.kind == "tensor"]
    calls = [[inputs[port.name] for port in ports] for inputs in failed.calls]
    data = step.input("program.ptd") if "program.ptd" in step.inputs else None
    found = search.judge(failed, run_tapped(search.tapped(), data, calls))
    if not isinstance(found, Inside):
        return found
    try:
        given = run_tapped(found.program, None, [found.inputs])
    except Exception as error:  # of a backend that can't make every result inside a partition an output
        return found.nodes.at.with_reason(f"its nodes' results cannot be read: {first_line(error)}")
    return found.nodes.judge(given)
