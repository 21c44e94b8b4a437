"""The work of a CI job: build and test the targets that a change affects."""

from __future__ import annotations

import time
from dataclasses import replace

from modelbuild.affected.affected import affected
from modelbuild.analysis.open import open_analyzer
from modelbuild.build.build import build
from modelbuild.build.request import Request
from modelbuild.errors import ExitCode
from modelbuild.events import BuildFinished, BuildStarted, Notice, Reporter
from modelbuild.loading.patterns import expand_patterns
from modelbuild.testing.run import TestOptions, run_tests
from modelbuild.testing.select import SUITE
from modelbuild.wording import count
from modelbuild.workspace.workspace import Workspace


def run_ci(
    workspace: Workspace, request: Request, since: str | None, options: TestOptions, reporter: Reporter
) -> ExitCode:
    """Build and test the targets of the request, or only those affected since a revision.

    One build does both: its actions are in one graph. Tests run although other targets failed to build, unless the
    request stops at the first failure.
    """
    started = time.monotonic()
    if since is None:
        analyzer = open_analyzer(workspace)
        found = [(str(t.label), t.rule) for t in expand_patterns(analyzer.loader, request.patterns, request.package)]
    else:
        answer = affected(workspace, request.patterns, request.package, since, request.devices)
        if answer.everything:
            reporter.emit(Notice(f"building everything: {answer.everything}"))
        found = [(each.label, each.rule) for each in answer.targets]
        differ = "differs" if len(found) == 1 else "differ"
        reporter.emit(Notice(f"{count(len(found), 'target')} {differ} from {answer.base[:12]}"))
    if not found:
        reporter.emit(BuildStarted((), 0, request.jobs))
        reporter.emit(BuildFinished(time.monotonic() - started))
        return ExitCode.OK
    request = replace(request, patterns=tuple(label for label, _ in found))
    if not any(rule.endswith("_test") or rule == SUITE for _, rule in found):
        return build(workspace, request, reporter).code
    return run_tests(workspace, request, options, reporter, started, build_all=True).code
