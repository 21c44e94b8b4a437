"""Search the first wrong node of a program that this machine runs."""

from __future__ import annotations

from pathlib import Path

from modelbuild.step import Step
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.testing.steps.bisect.finding import Finding
from modelbuild_rules.testing.steps.bisect.search import Failed, Inside, Search
from modelbuild_rules.testing.steps.parity.programs import description_of
from modelbuild_rules.testing.steps.parity.runners import ProgramRunner


def search(step: Step, runner: ProgramRunner, failed: Failed, folder: Path) -> tuple[Finding, int]:
    """Return the finding, and the number of its call. Raises ProgramError if the program with all tensors between
    partitions as outputs fails."""
    found = Search(step, description_of(step, "program"), folder)
    data = step.input("program.ptd") if "program.ptd" in step.inputs else None
    given = runner.run_file(found.tapped(), data, found.arguments(failed.calls))
    verdict, number = found.judge(failed, given)
    if not isinstance(verdict, Inside):
        return verdict, number
    try:
        (values,) = runner.run_file(verdict.program, None, [(None, verdict.inputs)])
    except Exception as error:  # exceptions of a backend that cannot make every result inside a partition an output
        return verdict.nodes.at.with_reason(f"its nodes' results cannot be read: {first_line(error)}"), number
    return verdict.nodes.judge(values), number
