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
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import modelbuild_runtime
from modelbuild.step import Step, StepError
from modelbuild_rules.steps._budgets import budget_cases, median_ms, peak_memory
from modelbuild_rules.steps._compare import compare
from modelbuild_rules.steps._draw import draw
from modelbuild_rules.steps._model import load_function, load_model, load_weights
from modelbuild_rules.steps._test_report import Case, limit_time, write_report
from modelbuild_runtime.bindings import lacking_backends, to_array, to_tensor
from modelbuild_runtime.inputs import read_inputs

Arrays = dict[str, np.ndarray]


def run(step: Step) -> None:
    limit_time(step)
    params = step.params
    program = open_program(step, "program")
    missing = _missing(program, params["arch"])
    if missing:
        write_report(step, [Case(case["name"], "not_run", message=missing) for case in params["cases"]])
        return
    cases = list(_inputs(step, program))
    before = peak_memory()
    _, inputs = cases[0]
    program.run(inputs)
    measures: dict[str, float] = {"memory": peak_memory() - before}
    eager = _eager(step, program)
    results = [_case(step, name, program.run(inputs), eager, inputs) for name, inputs in cases]
    measures["latency_ms"] = program.measure(inputs).median_ms
    if "max_latency_ratio" in params["budgets"]:
        measures["baseline_ms"] = _baseline(step, eager, inputs)
    facts = json.loads(step.input("program.delegation").read_bytes())
    files = [step.input(name) for name in ("program.pte", "program.ptd") if name in step.inputs]
    measures["bytes"] = sum(path.stat().st_size for path in files)
    results += budget_cases(params["budgets"], params["backends"], facts, measures)
    write_report(step, results, measures)


def open_program(step: Step, name: str) -> modelbuild_runtime.Program:
    """Load a program with its signature beside it."""
    folder = Path(tempfile.mkdtemp(prefix=name))
    pte = folder / "program.pte"
    pte.symlink_to(step.input(f"{name}.pte").resolve())
    (folder / "signature.json").symlink_to(step.input(f"{name}.signature").resolve())
    data = [step.input(f"{name}.ptd")] if f"{name}.ptd" in step.inputs else []
    return modelbuild_runtime.load(pte, data)


def _missing(program: modelbuild_runtime.Program, arch: str | None) -> str:
    """What the program needs and this machine lacks; '' when it can be run."""
    if arch is not None and arch != platform.machine():
        return f"needs a device with {arch}, and this machine is {platform.machine()}"
    lacking = lacking_backends(program.describe().method("forward"))
    return f"needs the backend {', '.join(lacking)}, which this runtime lacks" if lacking else ""


def _inputs(step: Step, program: modelbuild_runtime.Program) -> Any:
    """Each case's name and arrays."""
    ports = [port for port in program.describe().method("forward").inputs if port.kind == "tensor"]
    number = 0
    for index, case in enumerate(step.params["cases"]):
        if case["generator"] is None:
            files = {name: step.input(f"case.{index}.{name}") for name in case["inputs"]}
            yield case["name"], read_inputs(ports, files)
            continue
        for count in range(case["generator"]["count"]):
            several = case["generator"]["count"] > 1
            yield f"{case['name']}[{count}]" if several else case["name"], draw(ports, case["generator"], number)
            number += 1


def _eager(step: Step, program: modelbuild_runtime.Program) -> Callable[[Mapping[str, np.ndarray]], Arrays]:
    """The model in eager PyTorch, as a function of arrays by name."""
    params = step.params["eager"]
    torch.manual_seed(params["seed"])
    module = load_model(step.root, params["entry"], params["kwargs"])
    load_weights(module, {p: step.input(f"weights.{p}") for p in params["weights"]}, params["allow_missing"])
    module.eval().requires_grad_(False)
    described = program.describe().method("forward")
    ports = [port for port in described.inputs if port.kind == "tensor"]
    names = [port.name for port in described.outputs]

    @torch.no_grad()
    def call(arrays: Mapping[str, np.ndarray]) -> Arrays:
        values = pytree.tree_leaves(module(*[to_tensor(arrays[port.name], port) for port in ports]))
        if len(values) != len(names):
            raise StepError(f"the model gives {len(values)} outputs, the program {len(names)}")
        return {name: to_array(value) for name, value in zip(names, values, strict=True)}

    return call


def _case(step: Step, name: str, found: Arrays, eager: Callable[[Any], Arrays], inputs: Arrays) -> Case:
    began = time.perf_counter()
    expected = eager(inputs)
    problems = []
    for output, wanted in expected.items():
        tolerance = step.params["outputs"].get(output, step.params["tolerance"])
        problem = "" if tolerance["ignore"] else compare(found[output], wanted, tolerance)
        problems += [f"output '{output}': {problem}"] if problem else []
    for metric in step.params["metrics"]:
        value = float(load_function(step.root, metric["entry"])(found, expected))
        low, high = metric["min"], metric["max"]
        if not ((low is None or value >= low) and (high is None or value <= high)):
            bound = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
            problems.append(f"metric {metric['entry'].partition(':')[2]} is {value:.6g}, expected {bound}")
    seconds = time.perf_counter() - began
    return Case(name, "failed" if problems else "passed", round(seconds, 6), "; ".join(problems))


def _baseline(step: Step, eager: Callable[[Any], Arrays], inputs: Arrays) -> float:
    """Milliseconds of what latency is compared with."""
    if "baseline.pte" in step.inputs:
        return open_program(step, "baseline").measure(inputs).median_ms
    return median_ms(lambda: eager(inputs))
