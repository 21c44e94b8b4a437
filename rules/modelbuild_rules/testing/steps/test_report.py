"""The report that test steps write, and their time limit."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from modelbuild.step import Step

Status: TypeAlias = Literal["passed", "failed", "not_run"]


@dataclass(frozen=True)
class Case:
    """One case. `message` is the reason why it did not pass; `place` is `file:line` if known."""

    name: str
    status: Status
    seconds: float = 0.0
    message: str = ""
    place: str = ""


def limit_time(step: Step) -> None:
    """Set a timer with which the system kills this process at the test's timeout, whatever the process is doing."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, step.params["timeout"])


def write_report(
    step: Step,
    cases: Sequence[Case],
    measures: Mapping[str, float] | None = None,
    reason: str = "",
    note: str = "",
    unmatched: str = "",
) -> None:
    """Write a test's report. The test failed if a case failed, and was not run if no case passed (for `reason`). A
    `note` about the run is reported with each result. `unmatched`: why --test-filter selects no case."""
    failed = [case for case in cases if case.status == "failed"]
    passed = any(case.status == "passed" for case in cases)
    status: Status = "failed" if failed else "passed" if passed else "not_run"
    if failed:
        reason = f"{len(failed)} of {len(cases)} cases failed" if len(cases) > 1 else "its case failed"
    elif status == "not_run":
        reason = next((case.message for case in cases if case.message), "") or reason or "it has no case"
    report = {
        "version": 1,
        "status": status,
        "reason": "; ".join(filter(None, ("" if passed and not failed else reason, note))),
        "cases": [asdict(case) for case in cases],
        "measures": dict(measures or {}),
        **({"unmatched": unmatched} if unmatched else {}),
    }
    step.outputs["report"].write_text(json.dumps(report, indent=1) + "\n")
