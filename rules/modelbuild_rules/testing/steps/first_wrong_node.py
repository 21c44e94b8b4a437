"""Find the first node of a program whose result differs from eager PyTorch.

The search first covers partitions and the nodes outside them: it lowers the program again with all tensors between
partitions as outputs, and runs it with the delegates of the built program. It then compiles the wrong partition again
with its nodes' results as outputs. Expected values come from the exported program in eager mode.

Inputs   those of testing/steps/pte_test.py, and
         reference.<method>.program, .weights, .debug   of the model that the test compares with
         lowered.<method>.program, .weights             of the model that the method was made from
         backend.<method>.<number>.<name>               inputs of a compile step besides the partition
Params   those of testing/steps/pte_test.py, and
         backends                               [LoweredBackend of program/documents.py] by method
         modules                                the number of the program's module by method; methods with the same
                                                number share their state
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
from modelbuild_rules.testing.steps.parity.cases import cases
from modelbuild_rules.testing.steps.parity.eager import Eager
from modelbuild_rules.testing.steps.parity.parity import output_types, tolerance_of, wrong_metrics, wrong_outputs
from modelbuild_rules.testing.steps.parity.programs import methods_of, open_program
from modelbuild_runtime import Program
from modelbuild_runtime.bindings import lacking_backends, lacking_kernels
from modelbuild_runtime.errors import ProgramError


def run(step: Step) -> None:
    executorch_private.require()
    program = open_program(step, "program")
    methods = methods_of(program, step.params["methods"]).values()
    lacking = [name for each in methods for name in (*lacking_backends(each), *lacking_kernels(each))]
    finding = _lacking(list(dict.fromkeys(lacking))) if lacking else _find(step, program)
    finding.write(step.outputs["finding"])


def _lacking(names: Sequence[str]) -> Finding:
    return Finding(f"not searched: that needs ExecuTorch's Python runtime, which lacks {', '.join(names)}")


def _find(step: Step, program: Program) -> Finding:
    """Search the first failing case. Runs the program with ExecuTorch's Python runtime, whichever ran the test."""
    eager = Eager(step, program)
    types = output_types(step, program)
    methods = methods_of(program, step.params["methods"])
    for name, plan in cases(step, program):
        fresh = open_program(step, "program")
        calls, results = eager.run(plan)
        for number, (call, expected) in enumerate(zip(calls, results, strict=True), 1):
            try:
                found = fresh.run(call.inputs, methods[call.method].name)
            except ProgramError as error:
                return Finding(f"not searched: {error}")
            dtypes = types[call.method]
            wrong = wrong_outputs(step, found, expected, dtypes)
            if not wrong and not wrong_metrics(step, found, expected):
                continue
            output = next(iter(wrong), next(iter(dtypes)))
            failed = Failed(calls[:number], results[:number], tolerance_of(step, output, dtypes[output]))
            with TemporaryDirectory() as folder:
                finding, at = _search(step, program, failed, Path(folder))
            method = calls[at - 1].method if len(methods) > 1 else ""
            return finding.of_case(name, at, len(calls), method)
    where = " in ExecuTorch's Python runtime; the test used the C++ runtime" if step.params["cpp_runtime"] else ""
    return Finding(f"parity holds in every case{where}")


def _search(step: Step, program: Program, failed: Failed, folder: Path) -> tuple[Finding, int]:
    """Return the finding, and the number of its call."""
    search = Search(step, program, folder)
    data = step.input("program.ptd") if "program.ptd" in step.inputs else None
    found, number = search.judge(failed, run_tapped(search.tapped(), data, search.arguments(failed.calls)))
    if not isinstance(found, Inside):
        return found, number
    try:
        (given,) = run_tapped(found.program, None, [(None, found.inputs)])
    except Exception as error:  # of a backend that can't make every result inside a partition an output
        return found.nodes.at.with_reason(f"its nodes' results cannot be read: {first_line(error)}"), number
    return found.nodes.judge(given), number
