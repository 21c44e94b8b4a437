"""Compares a program with its model in eager PyTorch, and holds it to budgets.

Inputs   srcs, data, weights.<prefix>          what the model is made of, as for export
         program.pte, .ptd, .delegation, .signature; baseline.* likewise
         case.<index>.<input>                  files of inputs; metric_srcs
         runtime                               the C++ runtime, where it is to run the programs (parity/runners.py)
Params   as rules/pte_test.py declares them
Outputs  report                                see testing/steps/test_report.py
"""

from __future__ import annotations

import platform

from modelbuild.step import Step
from modelbuild_rules.testing.steps.parity.runners import runner_of
from modelbuild_rules.testing.steps.test_report import Case, limit_time, write_report


def run(step: Step) -> None:
    limit_time(step)
    runner = runner_of(step, "program")
    missing = _other_machine(step.params["arch"]) or runner.lacks()
    if missing:
        write_report(step, [Case(case["name"], "not_run", message=missing) for case in step.params["cases"]])
        return
    from modelbuild_rules.testing.steps.parity.program_test import (
        results,  # torch: seconds that a test that is not run does not take
    )

    write_report(step, *results(step, runner))


def _other_machine(arch: str | None) -> str:
    """Why the program is of no use here; '' when it is."""
    if arch is None or arch == platform.machine():
        return ""
    return f"needs a device with {arch}, and this machine is {platform.machine()}"
