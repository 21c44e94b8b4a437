"""The work of a CI job: build and test the targets that a change affects."""

from __future__ import annotations

import time
from dataclasses import replace

from modelbuild.affected.affected import affected
from modelbuild.build.request import Request
from modelbuild.errors import ExitCode, LoadingError
from modelbuild.events import BuildFinished, BuildStarted, Notice, Reporter
from modelbuild.testing.run import TestOptions, plan_tests, run_tests
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

    One build does both: its actions are in one graph. Tests run although other targets failed to build, unless the
    request stops at the first failure. Unless it `acts`, nothing runs: see plan_only().
    """
    started = time.monotonic()
    if since is not None:
        labels = _affected(workspace, request, since, reporter)
        if not labels:
            reporter.emit(BuildStarted((), 0, request.jobs))
            reporter.emit(BuildFinished(time.monotonic() - started))
            return ExitCode.OK
        request = replace(request, patterns=labels, places=())
    if not acts:
        return plan_tests(workspace, request, options, reporter, build_all=True)
    return run_tests(workspace, request, options, reporter, started, build_all=True).code


def _affected(workspace: Workspace, request: Request, since: str, reporter: Reporter) -> tuple[str, ...]:
    """Return the labels of the targets that differ since a revision; the request's patterns if their declarations have
    errors and the request keeps going."""
    try:
        answer = affected(workspace, request.patterns, request.package, since, request.devices)
    except LoadingError as error:
        if not request.keep_going:
            raise
        reporter.emit(Notice(f"building everything: {error}"))
        return request.patterns
    if answer.everything:
        reporter.emit(Notice(f"building everything: {answer.everything}"))
    differ = "differs" if len(answer.targets) == 1 else "differ"
    reporter.emit(Notice(f"{count(len(answer.targets), 'target')} {differ} from {answer.base[:12]}"))
    return tuple(each.label for each in answer.targets)
