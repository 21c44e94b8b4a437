"""Check requested targets without building them."""

from __future__ import annotations

import time

from modelbuild.api.providers import Check
from modelbuild.build.engine import open_engine
from modelbuild.build.plan import Plan, config_name, make_plan
from modelbuild.build.request import Request
from modelbuild.build.retry import retry_without_remote
from modelbuild.errors import ExitCode, UsageError
from modelbuild.events import BuildFinished, BuildStarted, Reporter, TargetBuilt, TargetFailed
from modelbuild.store.output_tree import make_root
from modelbuild.workspace.workspace import OUTPUT_FOLDER, Workspace


def check(workspace: Workspace, request: Request, reporter: Reporter) -> ExitCode:
    """Run the checks of the requested targets, and of all of them although some fail. Raises ModelbuildError for errors
    before any action runs, and UsageError if no target has a check."""
    started = time.monotonic()
    make_root(workspace.root / OUTPUT_FOLDER)

    def work(request: Request, reporter: Reporter) -> ExitCode:
        return _once(workspace, request, make_plan(workspace, request, reporter), reporter, started)

    return retry_without_remote(work, request, reporter)


def _once(workspace: Workspace, request: Request, plan: Plan, reporter: Reporter, started: float) -> ExitCode:
    checks = [(target, each.files) for target in plan.targets for each in target.providers if isinstance(each, Check)]
    if not checks:
        raise UsageError(f"nothing to check in {' '.join(request.patterns)}; expected targets such as a pte_program")
    wanted = [artifact for _, files in checks for artifact in files]
    code = ExitCode.OK
    with open_engine(workspace, request, plan.analyzer, reporter) as engine:
        scheduler = engine.scheduler(plan.analyzer)
        needed = scheduler.actions(plan.graph.needed_for(wanted))
        labels = tuple(str(target.node.label) for target, _ in checks)
        reporter.emit(BuildStarted(labels, len(needed), request.jobs, tuple(needed)))
        scheduler.build(wanted)
        for target, files in checks:
            label, config = str(target.node.label), config_name(target.device)
            culprit = scheduler.culprit(files)
            code = code if culprit is None else ExitCode.BUILD_FAILED
            reporter.emit(TargetBuilt(label, config, ()) if culprit is None else TargetFailed(label, config, culprit))
    code = code.with_loading_errors() if plan.incomplete else code
    reporter.emit(BuildFinished(time.monotonic() - started, exit=code))
    return code
