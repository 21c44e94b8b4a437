"""The cases and measures of a test whose program ran on a device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import modelbuild_runtime
from modelbuild.step import Step
from modelbuild_rules.testing.steps.parity.budgets import budget_cases, of_tested_methods
from modelbuild_rules.testing.steps.parity.cases import Plan, Planned
from modelbuild_rules.testing.steps.parity.device_report import DeviceReport
from modelbuild_rules.testing.steps.parity.eager import Eager
from modelbuild_rules.testing.steps.parity.parity import OutputTypes, output_types
from modelbuild_rules.testing.steps.parity.program_test import case_result
from modelbuild_rules.testing.steps.parity.programs import Calls, Results, description_of, method_of
from modelbuild_rules.testing.steps.test_report import Case
from modelbuild_runtime.errors import ProgramError

_LATENCIES = {"latency.max": ("latency_ms", "median"), "latency.p95": ("latency_p95_ms", "95th percentile")}


def results(
    step: Step, report: DeviceReport, cases: Sequence[Mapping[str, Any]]
) -> tuple[list[Case], dict[str, float]]:
    """Return the report's cases and measures."""
    program = description_of(step, "program")
    eager, types = Eager(step, program), output_types(step, program)
    found = []
    for number, case in enumerate(cases):
        step.progress("case", number + 1, len(cases))
        plan = saved_plan(step, program, case)
        try:
            found.append(case_result(step, case["name"], plan, _Device(report, f"case{number}", types), eager, types))
        except ProgramError as error:
            found.append(Case(case["name"], "failed", message=str(error)))
    measures: dict[str, float] = dict(report.state())
    if "filter" in step.params:  # measurements of some of the cases are incomplete
        return found, {}
    if report.emulator:
        message = f"latency is not measured in {report.emulator}"
        found += [Case(name, "not_run", message=message) for name in step.params["latencies"]]
    elif all(each.status == "passed" for each in found):
        found += _latencies(step, report, measures)
    files = [step.input(name) for name in ("program.pte", "program.ptd") if name in step.inputs]
    measures["bytes"] = sum(path.stat().st_size for path in files)
    facts = of_tested_methods(step, json.loads(step.input("program.delegation").read_bytes()))
    found += budget_cases(step.params["budgets"], step.params["backends"], facts, measures)
    return found, measures


def measured_text(measures: Mapping[str, float]) -> str:
    """Return `: 6.21 ms, 9.8 MiB, 61 C, 612 MHz` from the available measures; '' without a latency."""
    if "latency_ms" not in measures:
        return ""
    found = [f"{measures['latency_ms']:.4g} ms"]
    found += [f"{measures['peak_memory'] / (1 << 20):.1f} MiB"] if "peak_memory" in measures else []
    units = {"temperature_c": "C", "clock_mhz": "MHz"}
    found += [f"{measures[name]:.0f} {unit}" for name, unit in units.items() if name in measures]
    return f": {', '.join(found)}"


def saved_plan(step: Step, program: modelbuild_runtime.Description, case: Mapping[str, Any]) -> Plan:
    """Return the calls of a case of cases.json."""
    folder, plan = step.input("cases"), []
    for call in case["calls"]:
        inputs = {name: np.load(folder / file) for name, file in call["inputs"].items()}
        plan.append(Planned(f"case '{case['name']}'", call["method"], method_of(program, call["method"]), inputs, {}))
    return plan


class _Device:
    """The calls of a case, which a device has already run."""

    def __init__(self, report: DeviceReport, command: str, types: OutputTypes) -> None:
        self._report, self._command, self._types = report, command, types

    def run(self, calls: Calls) -> Results:
        outputs = self._report.outputs(self._command, len(calls))
        for call, each in zip(calls, outputs, strict=True):
            wanted = self._types[call.method]
            if each.keys() != wanted.keys():
                got, expected = (", ".join(sorted(names)) or "none" for names in (each, wanted))
                raise ProgramError(f"the device returned the outputs {got[:200]}; expected {expected}")
        return outputs


def _latencies(step: Step, report: DeviceReport, measures: dict[str, float]) -> list[Case]:
    """Return a case for each limit of the latency, and add the latencies to `measures`."""
    limits: Mapping[str, float] = step.params["latencies"]
    try:
        measures.update(report.latency() | report.other_latencies() | report.first() | report.peak_memory())
    except ProgramError as error:
        return [Case("latency", "failed", message=str(error))]
    cases = []
    for name, limit in limits.items():
        measure, what = _LATENCIES[name]
        value = measures[measure]
        message = "" if value <= limit else f"{what} of {value:.4g} ms, expected at most {limit:.4g} ms"
        cases.append(Case(name, "failed" if message else "passed", message=message))
    return cases
