"""Load and analyse requested targets, and report the work that a build would do. No action runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from modelbuild.actions import Artifact, DerivedArtifact, Expansion
from modelbuild.analysis.analyze import ConfiguredTarget
from modelbuild.build.dry_run import dry_run
from modelbuild.build.plan import Plan, analyze, config_name, opened
from modelbuild.build.request import Request
from modelbuild.errors import ExitCode
from modelbuild.events import BuildFinished, Planned, Reporter
from modelbuild.workspace.workspace import Workspace

# Returns the targets to build, and the artifacts of their actions.
Choice = tuple[Sequence[ConfiguredTarget], Iterable[Artifact]]


def plan_only(
    workspace: Workspace,
    request: Request,
    reporter: Reporter,
    choose: Callable[[Plan], Choice] | None = None,
    test_filter: str = "",
) -> ExitCode:
    """Report a plan. Raises UsageError, and LoadingError unless the request keeps going.

    choose  returns the targets of the plan to build, and their artifacts; by default all, and their files
    """
    started = time.monotonic()
    plan = analyze(opened(workspace, request, reporter, test_filter), request, reporter)
    targets, wanted = choose(plan) if choose is not None else (plan.targets, _files(plan))
    reporter.emit(_planned(plan, targets, list(wanted)))
    reporter.emit(BuildFinished(time.monotonic() - started))
    return ExitCode.OK.with_loading_errors() if plan.incomplete else ExitCode.OK


def _files(plan: Plan) -> list[Artifact]:
    return [artifact for target in plan.targets for artifact in target.files()]


def _planned(plan: Plan, targets: Sequence[ConfiguredTarget], wanted: Sequence[Artifact]) -> Planned:
    dry = dry_run(plan.analyzer, wanted)
    names = tuple((str(target.node.label), config_name(target.device)) for target in targets)
    cached = sum(name in dry.report.statuses for name in dry.needed)
    return Planned(names, len(dry.needed), cached, _grows(plan, dry.scheduler.values.resolve, wanted))


def _grows(plan: Plan, resolve: Callable[[Artifact], Artifact], wanted: Iterable[Artifact]) -> bool:
    """Return whether an expansion that the artifacts depend on waits for an action."""
    nodes = [plan.graph.nodes[name] for name in plan.graph.needed_for(wanted)]
    return any(
        plan.graph.is_promise(resolve(DerivedArtifact(node.id, promise)))
        for node in nodes
        if isinstance(node, Expansion)
        for promise in node.promises
    )
