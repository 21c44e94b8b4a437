"""Compares a program with its model in eager PyTorch, and holds it to budgets.

Inputs   srcs, data, weights.<prefix>          what the model is made of, as for export
         program.pte, .ptd, .delegation, .signature; baseline.* likewise
         case.<index>.<input>                  files of inputs; metric_srcs
         runtime                               the C++ runtime, where it is to run the programs (see _runners.py)
Params   as rules/pte_test.py declares them
Outputs  report                                see steps/_test_report.py
"""

from __future__ import annotations

import json
import platform
import time

from modelbuild.step import Step, StepError
from modelbuild_rules.steps._budgets import budget_cases, median_ms, peak_memory
from modelbuild_rules.steps._parity import (
    Arrays,
    Eager,
    cases,
    eager_model,
    open_program,
    wrong_metrics,
    wrong_outputs,
)
from modelbuild_rules.steps._runners import Runner, runner_of
from modelbuild_rules.steps._test_report import Case, limit_time, write_report
from modelbuild_runtime.errors import ProgramError


def run(step: Step) -> None:
    limit_time(step)
    params = step.params
    runner = runner_of(step, "program")
    missing = _other_machine(params["arch"]) or runner.lacks()
    if missing:
        write_report(step, [Case(case["name"], "not_run", message=missing) for case in params["cases"]])
        return
    program = open_program(step, "program")
    drawn = list(cases(step, program))
    _, inputs = drawn[0]
    measures: dict[str, float] = {}
    if "runtime" not in step.inputs:  # which runs it in processes of its own
        before = peak_memory()
        program.run(inputs)
        measures["memory"] = peak_memory() - before
    eager = eager_model(step, program)
    results, came_to_an_end = [], True
    for name, inputs in drawn:
        try:
            results.append(_case(step, name, runner.run(inputs), eager, inputs))
        except ProgramError as error:
            results.append(Case(name, "failed", message=str(error)))
            came_to_an_end = False
    if came_to_an_end:
        results += _budgets(step, runner, eager, drawn[0][1], measures)
    write_report(step, results, measures)


def _other_machine(arch: str | None) -> str:
    """Why the program is of no use here; '' when it is."""
    if arch is None or arch == platform.machine():
        return ""
    return f"needs a device with {arch}, and this machine is {platform.machine()}"


def _case(step: Step, name: str, found: Arrays, eager: Eager, inputs: Arrays) -> Case:
    began = time.perf_counter()
    expected = eager(inputs)
    problems = [f"output '{output}': {problem}" for output, problem in wrong_outputs(step, found, expected).items()]
    problems += wrong_metrics(step, found, expected)
    seconds = time.perf_counter() - began
    return Case(name, "failed" if problems else "passed", round(seconds, 6), "; ".join(problems))


def _budgets(step: Step, runner: Runner, eager: Eager, inputs: Arrays, measures: dict[str, float]) -> list[Case]:
    """A case for each budget; what is measured for them goes to the measures."""
    measures["latency_ms"] = runner.median_ms(inputs)
    if "max_latency_ratio" in step.params["budgets"]:
        measures["baseline_ms"] = _baseline(step, eager, inputs)
    facts = json.loads(step.input("program.delegation").read_bytes())
    files = [step.input(name) for name in ("program.pte", "program.ptd") if name in step.inputs]
    measures["bytes"] = sum(path.stat().st_size for path in files)
    return budget_cases(step.params["budgets"], step.params["backends"], facts, measures)


def _baseline(step: Step, eager: Eager, inputs: Arrays) -> float:
    """Milliseconds of what latency is compared with."""
    if "baseline.pte" not in step.inputs:
        return median_ms(lambda: eager(inputs))
    baseline = runner_of(step, "baseline")
    lacking = baseline.lacks()
    if lacking:
        raise StepError(f"the baseline {lacking}")
    return baseline.median_ms(inputs)
