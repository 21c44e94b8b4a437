"""Compares a program with its model in eager PyTorch, and holds it to budgets.

Inputs   srcs, data, weights.<prefix>          what the model is made of, as for export
         program.pte, .ptd, .delegation, .signature; baseline.* likewise
         case.<index>.<input>                  files of inputs; metric_srcs
Params   as rules/pte_test.py declares them
Outputs  report                                see steps/_test_report.py
"""

from __future__ import annotations

import json
import platform
import time

import modelbuild_runtime
from modelbuild.step import Step
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
from modelbuild_rules.steps._test_report import Case, limit_time, write_report
from modelbuild_runtime.bindings import lacking_backends


def run(step: Step) -> None:
    limit_time(step)
    params = step.params
    program = open_program(step, "program")
    missing = _missing(program, params["arch"])
    if missing:
        write_report(step, [Case(case["name"], "not_run", message=missing) for case in params["cases"]])
        return
    drawn = list(cases(step, program))
    before = peak_memory()
    _, inputs = drawn[0]
    program.run(inputs)
    measures: dict[str, float] = {"memory": peak_memory() - before}
    eager = eager_model(step, program)
    # A program may keep state between runs; each case begins with the state that it was made with.
    results = [_case(step, name, open_program(step, "program").run(inputs), eager, inputs) for name, inputs in drawn]
    measures["latency_ms"] = program.measure(inputs).median_ms
    if "max_latency_ratio" in params["budgets"]:
        measures["baseline_ms"] = _baseline(step, eager, inputs)
    facts = json.loads(step.input("program.delegation").read_bytes())
    files = [step.input(name) for name in ("program.pte", "program.ptd") if name in step.inputs]
    measures["bytes"] = sum(path.stat().st_size for path in files)
    results += budget_cases(params["budgets"], params["backends"], facts, measures)
    write_report(step, results, measures)


def _missing(program: modelbuild_runtime.Program, arch: str | None) -> str:
    """What the program needs and this machine lacks; '' when it can be run."""
    if arch is not None and arch != platform.machine():
        return f"needs a device with {arch}, and this machine is {platform.machine()}"
    lacking = lacking_backends(program.describe().method("forward"))
    return f"needs the backend {', '.join(lacking)}, which this runtime lacks" if lacking else ""


def _case(step: Step, name: str, found: Arrays, eager: Eager, inputs: Arrays) -> Case:
    began = time.perf_counter()
    expected = eager(inputs)
    problems = [f"output '{output}': {problem}" for output, problem in wrong_outputs(step, found, expected).items()]
    problems += wrong_metrics(step, found, expected)
    seconds = time.perf_counter() - began
    return Case(name, "failed" if problems else "passed", round(seconds, 6), "; ".join(problems))


def _baseline(step: Step, eager: Eager, inputs: Arrays) -> float:
    """Milliseconds of what latency is compared with."""
    if "baseline.pte" in step.inputs:
        return open_program(step, "baseline").measure(inputs).median_ms
    return median_ms(lambda: eager(inputs))
