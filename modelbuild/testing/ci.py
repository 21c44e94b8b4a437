"""Build and test the targets that a change affects, in a CI job."""

from __future__ import annotations

import time

from modelbuild.affected.affected import affected
from modelbuild.errors import ExitCode, LoadingError
from modelbuild.events import BuildFinished, BuildStarted, Notice, Reporter
from modelbuild.session.build import begin
from modelbuild.session.request import Request
from modelbuild.testing.options import TestOptions
from modelbuild.testing.run import run_tests
from modelbuild.wording import count
from modelbuild.workspace.workspace import Workspace


def run_ci(
    workspace: Workspace,
    request: Request,
    since: str | None,
    options: TestOptions,
    reporter: Reporter,
    acts: bool = True,
) -> ExitCode:
    """Build and test the targets of the request, or only those affected since a revision.

    One build does both, with all actions in one graph. Tests run although other targets failed to build, unless the
    request stops at the first failure. Unless it `acts`, nothing runs: see run_tests().
    """
    seen = begin(workspace)
    if since is not None:
        labels = _affected(workspace, request, since, reporter)
        if not labels:
            reporter.emit(BuildStarted((), 0, request.means.jobs))
            reporter.emit(BuildFinished(time.monotonic() - seen.started))
            return ExitCode.OK
        request = request.of(labels)
    return run_tests(workspace, request, options, reporter, seen=seen, build_all=True, acts=acts)


def _affected(workspace: Workspace, request: Request, since: str, reporter: Reporter) -> tuple[str, ...]:
    """Return the labels of the targets that differ since a revision; the request's patterns if their declarations have
    errors and the request keeps going."""
    targets = request.targets
    try:
        answer = affected(workspace, targets.patterns, targets.package, since, targets.devices)
    except LoadingError as error:
        if not request.means.keep_going:
            raise
        reporter.emit(Notice(f"building everything: {error}"))
        return targets.patterns
    if answer.everything:
        reporter.emit(Notice(f"building everything: {answer.everything}"))
    differ = "differs" if len(answer.targets) == 1 else "differ"
    reporter.emit(Notice(f"{count(len(answer.targets), 'target')} {differ} from {answer.base[:12]}"))
    return tuple(each.label for each in answer.targets)
