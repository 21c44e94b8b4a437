"""Tests under --test-filter: tests that can run a part of their cases, and tests with a matching case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from modelbuild.analysis.analyze import ConfiguredTarget
from modelbuild.api.providers import TestAction
from modelbuild.errors import UsageError
from modelbuild.events import Notice, Reporter
from modelbuild.wording import count

Tests: TypeAlias = list[tuple[ConfiguredTarget, TestAction]]


def filterable(tests: Tests, reporter: Reporter) -> Tests:
    """Return the tests whose rules select cases. Raises UsageError if only other tests were requested."""
    able = [(target, action) for target, action in tests if action.filters]
    others = [target for target, action in tests if not action.filters]
    if others:
        problem = f"rule '{others[0].rule}' of {others[0].node.label} selects no cases by --test-filter"
        if not able:
            raise UsageError(problem)
        reporter.emit(Notice(f"{count(len(others), 'test')} not run: {problem}"))
    return able


def matched(ends: Sequence[tuple[str, str]], test_filter: str, reporter: Reporter) -> list[bool]:
    """Return for each test whether a case matched, given its label and the reason if none did. Raises UsageError if no
    case of any test matched."""
    without = [(label, reason) for label, reason in ends if reason]
    if without and len(without) == len(ends):
        label, reason = min(without, key=lambda each: "did you mean" not in each[1])
        where = label if len(without) == 1 else f"{label} and {count(len(without) - 1, 'other test')}"
        raise UsageError(f"--test-filter: {where}: {reason}")
    if without:
        reporter.emit(Notice(f"{count(len(without), 'test')} without a case that matches '{test_filter}'"))
    return [not reason for _, reason in ends]
