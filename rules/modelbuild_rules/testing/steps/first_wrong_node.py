"""Find the first node of a program whose result differs from eager PyTorch.

The search first covers partitions and the nodes outside them: it lowers the program again with all tensors between
partitions as outputs, and runs it with the delegates of the built program. It then compiles the wrong partition again
with its nodes' results as outputs. Expected values come from the exported program in eager mode.

Inputs   as in testing/steps/pte_test.py, and
         reference.<method>.program, .weights, .debug   of the model that the test compares with
         lowered.<method>.program, .weights             of the model that the method was made from
         backend.<method>.<number>.<name>               additional inputs of a compile step
Params   as in testing/steps/pte_test.py, and
         backends                               [LoweredBackend of program/documents.py] by method
         modules                                the number of the program's module by method; methods with the same
                                                number share their state
Outputs  finding                                JSON: version, message, place (`file:line` or '')
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.testing.steps.bisect.finding import Finding
from modelbuild_rules.testing.steps.bisect.search import Failed
from modelbuild_rules.testing.steps.bisect.search_here import search
from modelbuild_rules.testing.steps.parity.cases import cases
from modelbuild_rules.testing.steps.parity.eager import Eager
from modelbuild_rules.testing.steps.parity.parity import output_types, tolerance_of, wrong_metrics, wrong_outputs
from modelbuild_rules.testing.steps.parity.programs import description_of, methods_of
from modelbuild_rules.testing.steps.parity.runners import ProgramRunner
from modelbuild_runtime.errors import ProgramError


def run(step: Step) -> None:
    executorch_private.require()
    runner = ProgramRunner(step, "program")
    unmet = runner.unmet_requirement()
    finding = Finding(f"not searched: the program {unmet}") if unmet else _find(step, runner)
    finding.write(step.outputs["finding"])


def _find(step: Step, runner: ProgramRunner) -> Finding:
    """Search the first failing case."""
    program = description_of(step, "program")
    eager = Eager(step, program)
    types = output_types(step, program)
    several = len(methods_of(program, step.params["methods"])) > 1
    for name, plan in cases(step, program):
        calls, results = eager.run(plan)
        try:
            outputs = runner.run(calls)
        except ProgramError as error:
            return Finding(f"not searched: {error}")
        for number, (call, found, expected) in enumerate(zip(calls, outputs, results, strict=True), 1):
            dtypes = types[call.method]
            wrong = wrong_outputs(step, found, expected, dtypes)
            if not wrong and not wrong_metrics(step, found, expected):
                continue
            output = next(iter(wrong), next(iter(dtypes)))
            failed = Failed(calls[:number], results[:number], tolerance_of(step, output, dtypes[output]))
            with TemporaryDirectory() as folder:
                finding, at = search(step, runner, failed, Path(folder))
            return finding.of_case(name, at, len(calls), calls[at - 1].method if several else "")
    return Finding("parity holds in every case")
