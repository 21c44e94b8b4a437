"""Compare a program with eager PyTorch on each case, and check its budgets."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress

from modelbuild.step import Step, StepError
from modelbuild_rules.testing.steps.parity.accuracy import accuracy_cases
from modelbuild_rules.testing.steps.parity.budgets import budget_cases, median_ms, of_method, peak_memory
from modelbuild_rules.testing.steps.parity.parity import (
    Eager,
    cases,
    eager_model,
    output_types,
    wrong_metrics,
    wrong_outputs,
)
from modelbuild_rules.testing.steps.parity.programs import Arrays, Calls, method_of, open_program
from modelbuild_rules.testing.steps.parity.runners import Runner, runner_of
from modelbuild_rules.testing.steps.test_report import Case
from modelbuild_runtime.errors import ProgramError


def results(step: Step, runner: Runner) -> tuple[list[Case], dict[str, float]]:
    """Return the report's cases and measures."""
    program = open_program(step, "program")
    method = method_of(step, program).name
    drawn = list(cases(step, program))
    _, inputs = drawn[0]
    measures: dict[str, float] = {}
    if "runtime" not in step.inputs:  # the C++ runtime uses processes of its own
        before = peak_memory()
        with suppress(ProgramError):  # its case reports the error
            program.run(inputs[0], method)
        measures["memory"] = peak_memory() - before
    eager = eager_model(step, program)
    dtypes = output_types(step, program)
    found, came_to_an_end = [], True
    for number, (name, each) in enumerate(drawn, 1):
        step.progress("case", number, len(drawn))
        try:
            found.append(case_result(step, name, runner.run(each), eager, each, dtypes))
        except ProgramError as error:
            found.append(Case(name, "failed", message=str(error)))
            came_to_an_end = False
    if came_to_an_end and "filter" not in step.params:  # a part of the cases measures nothing of the whole
        step.progress("measuring")
        found += _budgets(step, runner, eager, inputs[0], measures, method)
        found += accuracy_cases(step, runner, eager, measures)
    return found, measures


def case_result(step: Step, name: str, found: Calls, eager: Eager, inputs: Calls, dtypes: Mapping[str, str]) -> Case:
    """Return the result of a case, with the problems of its first wrong call: later ones may follow from them."""
    began = time.perf_counter()
    problems: list[str] = []
    for number, (one, expected) in enumerate(zip(found, eager(inputs), strict=True), 1):
        wrong = wrong_outputs(step, one, expected, dtypes)
        problems = [f"output '{output}': {problem}" for output, problem in wrong.items()]
        problems += wrong_metrics(step, one, expected)
        if problems:
            problems[0] = f"call {number} of {len(found)}: {problems[0]}" if len(found) > 1 else problems[0]
            break
    seconds = time.perf_counter() - began
    return Case(name, "failed" if problems else "passed", round(seconds, 6), "; ".join(problems))


def _budgets(
    step: Step, runner: Runner, eager: Eager, inputs: Arrays, measures: dict[str, float], method: str
) -> list[Case]:
    """Return a case for each budget, and add the measured values to `measures`. An emulator has no latency."""
    budgets, unmeasured = dict(step.params["budgets"]), []
    if not runner.emulator:
        measures["latency_ms"] = runner.median_ms(inputs)
        if "max_latency_ratio" in budgets:
            measures["baseline_ms"] = _baseline(step, eager, inputs)
    elif budgets.pop("max_latency_ratio", None) is not None:
        message = f"latency is not measured in {runner.emulator}"
        unmeasured.append(Case("max_latency_ratio", "not_run", message=message))
    facts = of_method(json.loads(step.input("program.delegation").read_bytes()), method)
    files = [step.input(name) for name in ("program.pte", "program.ptd") if name in step.inputs]
    measures["bytes"] = sum(path.stat().st_size for path in files)
    return budget_cases(budgets, step.params["backends"], facts, measures) + unmeasured


def _baseline(step: Step, eager: Eager, inputs: Arrays) -> float:
    """Return the median milliseconds of the baseline."""
    if "baseline.pte" not in step.inputs:
        return median_ms(lambda: eager([inputs]))
    baseline = runner_of(step, "baseline")
    unmet = baseline.unmet_requirement()
    if unmet:
        raise StepError(f"the baseline {unmet}")
    return baseline.median_ms(inputs)
