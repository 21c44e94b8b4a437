"""Compare a program with eager PyTorch on each case, and check its budgets."""

from __future__ import annotations

import json
import time

from modelbuild.step import Step, StepError
from modelbuild_rules.testing.steps.parity.accuracy import accuracy_cases
from modelbuild_rules.testing.steps.parity.budgets import budget_cases, estimated_cases, of_tested_methods
from modelbuild_rules.testing.steps.parity.cases import Plan, Planned, cases
from modelbuild_rules.testing.steps.parity.eager import Eager
from modelbuild_rules.testing.steps.parity.parity import OutputTypes, output_types, wrong_metrics, wrong_outputs
from modelbuild_rules.testing.steps.parity.programs import Call, Calls, Results, description_of, latencies
from modelbuild_rules.testing.steps.parity.runners import Caller, ProgramRunner
from modelbuild_rules.testing.steps.test_report import Case
from modelbuild_runtime.errors import ProgramError


def results(step: Step, runner: ProgramRunner) -> tuple[list[Case], dict[str, float]]:
    """Return the report's cases and measures."""
    program = description_of(step, "program")
    drawn = list(cases(step, program))
    measures: dict[str, float] = {}
    eager = Eager(step, program)
    types = output_types(step, program)
    found, came_to_an_end = [], True
    for number, (name, each) in enumerate(drawn, 1):
        step.progress("case", number, len(drawn))
        try:
            found.append(case_result(step, name, each, runner, eager, types))
        except ProgramError as error:
            found.append(Case(name, "failed", message=str(error)))
            came_to_an_end = False
    if came_to_an_end and "filter" not in step.params:  # measurements of some of the cases are incomplete
        step.progress("measuring")
        found += _budgets(step, runner, eager, drawn[0][1], measures)
        found += accuracy_cases(step, runner, eager, measures)
    return found, measures


def case_result(step: Step, name: str, plan: Plan, runner: Caller, eager: Eager, types: OutputTypes) -> Case:
    """Return the result of a case. Raises ProgramError for a program that fails."""
    began = time.perf_counter()
    calls, expected = eager.run(plan)
    seconds = time.perf_counter() - began
    problem = wrong_call(step, calls, runner.run(calls), expected, types)
    return Case(name, "failed" if problem else "passed", round(seconds, 6), problem)


def wrong_call(step: Step, calls: Calls, found: Results, expected: Results, types: OutputTypes) -> str:
    """Return the problems of a case's first wrong call, because later problems may follow from it; '' if all calls are
    right."""
    several = len({call.method for call in calls}) > 1
    for number, (call, one, wanted) in enumerate(zip(calls, found, expected, strict=True), 1):
        wrong = wrong_outputs(step, one, wanted, types[call.method])
        problems = [f"output '{output}': {problem}" for output, problem in wrong.items()]
        problems += wrong_metrics(step, one, wanted)
        if problems:
            of = f" ({call.method})" if several else ""
            return (f"call {number} of {len(found)}{of}: " if len(found) > 1 else "") + "; ".join(problems)
    return ""


def _budgets(step: Step, runner: ProgramRunner, eager: Eager, plan: Plan, measures: dict[str, float]) -> list[Case]:
    """Return a case for each budget, and add the measured values to `measures`. An emulator has no latency."""
    budgets, unmeasured = dict(step.params["budgets"]), []
    if not runner.emulator:
        calls, _ = eager.run(plan)
        for name, number in latencies(calls).items():
            found = runner.measures(calls[number])
            measures[name] = found["latency_ms"]
            measures["memory"] = max(found["memory"], measures.get("memory", 0.0))
        if not runner.on_gpu:
            measures["eager_ms"] = eager.latency_ms(plan[0])
        if "latency.ratio" in budgets:
            measures["baseline_ms"] = _baseline(step, eager, plan[0], calls[0])
    for name in ("latency.ratio", "limits.memory") if runner.emulator else ():
        if budgets.pop(name, None) is not None:
            unmeasured.append(Case(name, "not_run", message=f"it is not measured in {runner.emulator}"))
    facts = of_tested_methods(step, json.loads(step.input("program.delegation").read_bytes()))
    files = [step.input(name) for name in ("program.pte", "program.ptd") if name in step.inputs]
    measures["bytes"] = sum(path.stat().st_size for path in files)
    return budget_cases(budgets, step.params["backends"], facts, measures) + estimated_cases(step, facts) + unmeasured


def _baseline(step: Step, eager: Eager, planned: Planned, call: Call) -> float:
    """Return the median milliseconds of the baseline."""
    if "baseline.pte" not in step.inputs:
        return eager.latency_ms(planned)
    baseline = ProgramRunner(step, "baseline")
    unmet = baseline.unmet_requirement()
    if unmet:
        raise StepError(f"the baseline {unmet}")
    return baseline.measures(call)["latency_ms"]
