"""Compare a program's outputs on a device with its model in eager PyTorch, and check its budgets.

Inputs   srcs, data, weights.<prefix>   the model's files, as for export
         program.pte, .ptd, .delegation, .signature; metric_srcs
         cases    the folder that device_cases.py wrote
         bundle   the program with its runtime; the device has it
         device   device.json, and in `out` a folder for each command: the device's results
Params   as rules/on_device.py declares them
Outputs  report   see testing/steps/test_report.py
"""

from __future__ import annotations

import json

from modelbuild.step import Step
from modelbuild_rules.testing.steps.parity.device_report import DeviceReport
from modelbuild_rules.testing.steps.test_report import Case, limit_time, write_report


def run(step: Step) -> None:
    limit_time(step)
    cases = json.loads((step.input("cases") / "cases.json").read_bytes())
    report = DeviceReport.read(step.input("device"))
    print(report.logs(), end="")
    missing = report.unmet_requirement()
    if missing:
        write_report(step, [Case(each["name"], "not_run", message=missing) for each in cases])
        return
    from modelbuild_rules.testing.steps.parity.device_results import (  # imports torch, which takes seconds
        measured_text,
        results,
    )

    found, measures = results(step, report, cases)
    write_report(step, found, measures, note=f"on {report.name()}{measured_text(measures)}")
