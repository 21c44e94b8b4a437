"""Bring everything that targets need from elsewhere: toolchains and downloads."""

from __future__ import annotations

import time
from collections import defaultdict

from modelbuild.actions import Action, DerivedArtifact
from modelbuild.analysis.make_toolchain import make_toolchain
from modelbuild.api.providers import PythonToolchain
from modelbuild.build.engine import open_engine
from modelbuild.build.plan import Plan, make_plan
from modelbuild.build.request import Request
from modelbuild.build.retry import retry_without_remote
from modelbuild.errors import ExitCode
from modelbuild.events import BuildFinished, BuildStarted, Notice, Reporter, TargetBuilt, TargetFailed
from modelbuild.store.output_tree import make_root
from modelbuild.workspace.workspace import OUTPUT_FOLDER, Workspace


def fetch(workspace: Workspace, request: Request, reporter: Reporter) -> ExitCode:
    """Make the request's toolchain and those among its targets, and run the downloads that the targets depend on; lay
    nothing out. Afterwards a build of the targets needs no network, unless an action that ran adds other downloads.
    Raises ModelbuildError for errors before any action runs."""
    started = time.monotonic()
    make_root(workspace.root / OUTPUT_FOLDER)

    def work(request: Request, reporter: Reporter) -> ExitCode:
        return _once(workspace, request, make_plan(workspace, request, reporter), reporter, started)

    return retry_without_remote(work, request, reporter)


def _once(workspace: Workspace, request: Request, plan: Plan, reporter: Reporter, started: float) -> ExitCode:
    toolchains = [target for target in plan.targets if any(isinstance(p, PythonToolchain) for p in target.providers)]
    for target in toolchains:
        make_toolchain(plan.analyzer, target.node.label, lambda text: reporter.emit(Notice(text)))
    downloads: dict[str, list[DerivedArtifact]] = defaultdict(list)
    for node in plan.graph.nodes.values():
        if isinstance(node, Action) and node.network:
            downloads[node.owner] += [DerivedArtifact(node.id, output.name) for output in node.outputs]
    wanted = [artifact for artifacts in downloads.values() for artifact in artifacts]
    code = ExitCode.OK
    with open_engine(workspace, request, plan.analyzer, reporter) as engine:
        scheduler = engine.scheduler(plan.analyzer)
        needed = scheduler.actions(plan.graph.needed_for(wanted))
        labels = tuple(str(target.node.label) for target in toolchains) + tuple(downloads)
        reporter.emit(BuildStarted(labels, len(needed), request.jobs, tuple(needed)))
        scheduler.build(wanted)
        for target in toolchains:
            reporter.emit(TargetBuilt(str(target.node.label), "", ()))
        for owner, artifacts in downloads.items():
            culprit = scheduler.culprit(artifacts)
            code = code if culprit is None else ExitCode.BUILD_FAILED
            reporter.emit(TargetBuilt(owner, "", ()) if culprit is None else TargetFailed(owner, "", culprit))
    code = code.with_loading_errors() if plan.incomplete else code
    reporter.emit(BuildFinished(time.monotonic() - started, actions=len(needed), exit=code))
    return code
