"""Build the dependencies of tests, run them, and report their results: nothing if nothing changed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from modelbuild.build_record.snapshots import Seen, Snapshot
from modelbuild.build_record.stale_targets import BuiltTarget
from modelbuild.errors import ExitCode
from modelbuild.events import BuildFinished, Reporter, TestFinished
from modelbuild.session.build import begin
from modelbuild.session.request import Request
from modelbuild.testing.options import TestOptions
from modelbuild.testing.report import merge, read_report
from modelbuild.workspace.workspace import Workspace

if TYPE_CHECKING:
    from modelbuild.session.session import Session


def run_tests(
    workspace: Workspace,
    request: Request,
    options: TestOptions,
    reporter: Reporter,
    *,
    seen: Seen | None = None,
    build_all: bool = False,
    acts: bool = True,
    unchanged: bool = False,
) -> ExitCode:
    """Run the tests of a request. Raises ModelbuildError for errors before any action runs, and UsageError if there is
    no test.

    seen       the state of the workspace since the start of the command
    build_all  all targets of the request are also built; then tests are optional
    acts       if false, the work is reported, and nothing runs
    unchanged  if nothing changed since the last such run passed, report its results from its record, which lacks the
               tests' places and output
    """
    seen = seen or begin(workspace)
    snapshot = Snapshot.of(workspace, [*request.identity(), "test", asdict(options)])
    verify = request.means.verify_sources
    if verify or (unchanged and not options.all_again):
        stale = snapshot.find_stale(workspace.root, verify)
        if stale is not None and not stale.labels:
            for ended in _passed(workspace, stale.fresh):
                reporter.emit(ended)
            seconds = time.monotonic() - seen.started
            reporter.emit(BuildFinished(seconds, up_to_date=True, actions=stale.record.actions))
            return ExitCode.OK
    from modelbuild.session.session import in_session
    from modelbuild.testing.tests import Tests

    def work(session: Session) -> ExitCode:
        tests = Tests(session, options, build_all)
        return tests.run(None if build_all else snapshot) if acts else tests.preview()

    return in_session(workspace, request, reporter, work, seen)


def _passed(workspace: Workspace, tests: Iterable[BuiltTarget]) -> Iterable[TestFinished]:
    for test in tests:
        report = merge([read_report((workspace.root / path).read_bytes()) for path in test.outputs])
        yield TestFinished(
            test.label,
            test.config,
            report.status,
            report.reason,
            cached=True,
            cases=report.cases,
            measures=report.measures,
        )
