"""Find the causes of failed tests, if their rules support that."""

from __future__ import annotations

import json
from collections.abc import Iterable

from modelbuild.actions import DerivedArtifact, FileEntry
from modelbuild.api.providers import TestAction
from modelbuild.events import TestCase, TestFinished
from modelbuild.execution.scheduling.scheduler import Scheduler
from modelbuild.lines import one_line
from modelbuild.store.interface import Store


def has_failed(ended: TestFinished) -> bool:
    """Return whether a case failed; an aborted test has no cases."""
    return any(case.status == "failed" for case in ended.cases)


def find_causes(
    scheduler: Scheduler, store: Store, failed: Iterable[TestAction]
) -> dict[DerivedArtifact | None, TestCase]:
    """Build the actions that search for causes of failed tests. Returns a case with each finding, by the artifact."""
    wanted = [action.bisect for action in failed if action.bisect is not None]
    if wanted:
        scheduler.build(wanted)
    return {artifact: _case(scheduler, store, artifact) for artifact in wanted}


def _case(scheduler: Scheduler, store: Store, artifact: DerivedArtifact) -> TestCase:
    culprit = scheduler.culprit([artifact])
    if culprit is not None:
        return TestCase("bisect", "failed", message=f"was aborted: {culprit or artifact.action} failed")
    value = scheduler.values.value(artifact)
    assert isinstance(value, FileEntry)
    try:
        finding = json.loads(store.read_bytes(value.digest))
        message, place = str(finding["message"]), str(finding.get("place", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message, place = f"malformed finding: {error}", ""
    return TestCase("bisect", "failed", message=one_line(message), place=one_line(place))
