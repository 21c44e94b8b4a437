"""A test's report, written by its action (docs/reference/tests.md describes the format)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from modelbuild.events import TestCase, TestStatus
from modelbuild.lines import one_line, shown

VERSION = 1
_GREATEST = 1e300


@dataclass(frozen=True, slots=True)
class TestReport:
    """The result of one run. `reason` is one line if it did not pass; `unmatched` is one line if --test-filter selected
    no case."""

    __test__ = False  # pytest would collect it as a test class

    status: TestStatus
    reason: str = ""
    cases: tuple[TestCase, ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict)
    unmatched: str = ""


def parse_report(text: bytes) -> TestReport:
    """Parse a report. Raises ValueError for anything else."""
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']}, expected {VERSION}")
        cases = tuple(_case(each) for each in data["cases"])
        measures = {_text(name): _number(value) for name, value in data.get("measures", {}).items()}
        unmatched = _text(data.get("unmatched", ""))
        return TestReport(_status(data["status"]), _text(data.get("reason", "")), cases, measures, unmatched)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a test's report: {error}") from error


def read_report(text: bytes) -> TestReport:
    """Parse a report; for malformed text, return a failure that describes the error."""
    try:
        return parse_report(text)
    except ValueError as error:
        return TestReport("failed", one_line(f"malformed report: {error}"))


def merge(reports: Sequence[TestReport]) -> TestReport:
    """Merge the reports of a test's shards: failed if any failed, not run if none passed."""
    if len(reports) == 1:
        return reports[0]
    statuses = [report.status for report in reports]
    status: TestStatus = "failed" if "failed" in statuses else "passed" if "passed" in statuses else "not_run"
    return TestReport(
        status,
        next((report.reason for report in reports if report.status == status and report.reason), ""),
        tuple(case for report in reports for case in report.cases),
        {name: value for report in reports for name, value in report.measures.items()},
        next((r.unmatched for r in reports), "") if all(report.unmatched for report in reports) else "",
    )


def require_all(report: TestReport) -> TestReport:
    """Turn a report with skipped tests or cases into a failure."""
    skipped = [case for case in report.cases if case.status == "not_run"]
    if report.status == "failed" or (report.status == "passed" and not skipped):
        return report
    why = report.reason if report.status == "not_run" else f"{skipped[0].name}: {skipped[0].message}"
    return TestReport("failed", f"not run, which --require-all forbids: {why}", report.cases, report.measures)


def _case(data: Any) -> TestCase:
    return TestCase(
        _text(data["name"]),
        _status(data["status"]),
        max(0.0, _number(data.get("seconds", 0.0))),
        _text(data.get("message", "")),
        _text(data.get("place", "")),
    )


def _text(value: Any) -> str:
    """Return text on one line, because reporters print one line per item."""
    return one_line(str(value))


def _number(value: Any) -> float:
    found = float(value) if isinstance(value, (int, float)) and abs(value) < _GREATEST else math.nan
    if not math.isfinite(found):
        raise ValueError(f"{shown(str(value))} is not a finite number")
    return found


def _status(text: Any) -> TestStatus:
    if text not in get_args(TestStatus):
        raise ValueError(f"{text!r} is not one of {', '.join(get_args(TestStatus))}")
    status: TestStatus = text
    return status
