"""Build the dependencies of tests, run them, and report their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelbuild.build_record.snapshots import Seen, Snapshot
from modelbuild.errors import ExitCode
from modelbuild.events import Reporter
from modelbuild.session.build import begin
from modelbuild.session.request import Request
from modelbuild.testing.options import TestOptions
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
) -> ExitCode:
    """Run the tests of a request. Raises ModelbuildError for errors before any action runs, and UsageError if there is
    no test.

    seen       the state of the workspace since the start of the command
    build_all  all targets of the request are also built; then tests are optional
    acts       if false, the work is reported, and nothing runs
    """
    seen = seen or begin(workspace)
    if request.means.verify_sources:
        Snapshot.of(workspace, request.identity()).forget_all()

    from modelbuild.session.session import in_session
    from modelbuild.testing.tests import Tests

    def work(session: Session) -> ExitCode:
        tests = Tests(session, options, build_all)
        return tests.run() if acts else tests.preview()

    return in_session(workspace, request, reporter, work, seen)
