"""Compare a program with its model in eager PyTorch, and check its budgets.

Inputs   srcs, data, weights.<prefix>          the model's files, as for export; of other methods' models likewise, with
                                               the prefix in `methods`
         program.pte, .ptd, .delegation, .signature; baseline.* likewise
         case.<index>.<step>.<input>           files of inputs; metric_srcs
         runtime                               optional: the archive of the C++ runtime (parity/runners.py)
         kernels.<name>                        kernel libraries (bundle/steps/runtime/kernels.py)
         library.<index>                       libraries that the C++ runtime needs in addition to its own
Params   as rules/pte_test.py declares them
Outputs  report                                see testing/steps/test_report.py
"""

from __future__ import annotations

import json

from modelbuild.step import Step
from modelbuild_rules.case_names import case_names, is_selected
from modelbuild_rules.testing.steps.parity.budgets import estimated_cases, slower_than_eager
from modelbuild_rules.testing.steps.parity.runners import ProgramRunner
from modelbuild_rules.testing.steps.test_report import Case, limit_time, write_report


def run(step: Step) -> None:
    limit_time(step)
    runner = ProgramRunner(step, "program")
    missing = runner.unmet_requirement()
    if missing:
        not_run = [Case(name, "not_run", message=missing) for name in _selected_cases(step)]
        delegation = json.loads(step.input("program.delegation").read_bytes())
        write_report(step, [*not_run, *estimated_cases(step, delegation)])
        return
    from modelbuild_rules.testing.steps.parity.program_test import (
        results,  # imports torch, which takes seconds
    )

    emulated = f"run by {runner.emulator}, which emulates {step.params['arch']}" if runner.emulator else ""
    found, measures = results(step, runner)
    write_report(step, found, measures, note=emulated or slower_than_eager(measures))


def _selected_cases(step: Step) -> list[str]:
    """Return the names of the cases, without the numbers of cases that a generator draws."""
    selected = step.params.get("filter", "")
    cases = [(case["name"], case["drawn"] or 1) for case in step.params["cases"]]
    return [name for name, count in cases if any(is_selected(each, selected) for each in case_names(name, count))]
