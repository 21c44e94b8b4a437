"""Test results as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelbuild.events import TestFinished
from modelbuild.wording import count, duration


def test_lines(test: TestFinished) -> Iterator[str]:
    """Yield the output of a test if it is to be shown, the test's result, and its cases that did not pass."""
    if test.shown and test.output.strip():
        yield f"--- output of {test.label}"
        yield test.output.rstrip()
    how = {"passed": "PASSED", "failed": "FAILED", "not_run": "NOT RUN"}[test.status]
    line = f"{test.label}  {how}"
    if test.status != "not_run":
        line += "  cached" if test.cached else f"  {duration(test.seconds)}"
    if test.attempts > 1:
        line += f"  ({test.passed} of {test.attempts} runs passed)"
    yield line + (f": {test.reason}" if test.reason else "")
    for case in test.cases:
        if case.status == "failed":
            yield f"  {case.name}: {case.message}" + (f" ({case.place})" if case.place else "")
        elif case.status == "not_run" and test.status != "not_run":
            yield f"  {case.name} was not run: {case.message}"


def test_summary(tests: Sequence[TestFinished]) -> str:
    """Return `4 tests: 2 passed (1 cached), 1 failed, 1 not run`."""
    parts = []
    for status, name in (("passed", "passed"), ("failed", "failed"), ("not_run", "not run")):
        of = [test for test in tests if test.status == status]
        cached = sum(test.cached for test in of)
        if of:
            parts.append(f"{len(of)} {name}" + (f" ({cached} cached)" if cached else ""))
    return f"{count(len(tests), 'test')}: {', '.join(parts)}"
