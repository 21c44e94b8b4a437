"""Execute a plan: run stale actions, lay out the targets' files, record inputs and outputs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from modelbuild.actions import Artifact, SourceArtifact, Value
from modelbuild.analysis.analyze import ConfiguredTarget
from modelbuild.build.engine import Engine, open_engine
from modelbuild.build.plan import Plan, config_name
from modelbuild.build.record_history import record_history
from modelbuild.build.request import BuiltTarget, Request, Result
from modelbuild.build.snapshot import Seen, Snapshots
from modelbuild.build.source_files import Sources
from modelbuild.build.stale_targets import StaleTargets
from modelbuild.errors import ExitCode, LoadingError, ModelbuildError
from modelbuild.events import BuildFinished, BuildStarted, Reporter, TargetBuilt, TargetFailed
from modelbuild.execution.fork_server_client import ForkServer
from modelbuild.execution.scheduling.scheduler import Scheduler
from modelbuild.store.output_tree import lay_out
from modelbuild.workspace.workspace import OUTPUT_FOLDER, Workspace


@dataclass(frozen=True, slots=True)
class Job:
    """A request in a workspace, with its reporter, its start by time.monotonic(), and the records of builds."""

    workspace: Workspace
    request: Request
    reporter: Reporter
    started: float
    snapshots: Snapshots


def execute(
    job: Job, plan: Plan, seen: Seen, stale: StaleTargets | None = None, spare: ForkServer | None = None
) -> Result:
    """Build, and record inputs and outputs on success. With `stale` the plan contains only these targets."""
    workspace, request, reporter = job.workspace, job.request, job.reporter
    with open_engine(workspace, request, plan.analyzer, reporter, spare) as engine:
        scheduler = engine.scheduler(plan.analyzer)
        result = run_actions(workspace, engine, plan, scheduler, seen)
        seconds = time.monotonic() - job.started
        record_history(workspace, plan.attributes(), scheduler, engine.code, result, seconds)
    for target in stale.fresh if stale is not None else ():
        reporter.emit(TargetBuilt(target.label, target.config, target.outputs))
    if result.code == ExitCode.OK:
        seen.files.update(engine.sources.stamps)
        seen.folders.update(engine.sources.folders)
        reads = plan.reads(scheduler.report.keys, seen)
        if stale is not None:
            result = Result(stale.merge(result.targets), actions=stale.actions(reads))
        job.snapshots.save(request, seen, result.targets, result.actions, reads, stale)
    else:
        job.snapshots.forget(request)
    reporter.emit(BuildFinished(time.monotonic() - job.started, actions=result.actions, exit=result.code))
    return result


def run_actions(
    workspace: Workspace,
    engine: Engine,
    plan: Plan,
    scheduler: Scheduler,
    seen: Seen,
    tests: Mapping[str, Sequence[Artifact]] | None = None,
) -> Result:
    """Run the actions of a plan's targets, and of the reports of tests by label, then lay out the targets' files."""
    request, reporter = engine.request, engine.reporter
    wanted = [artifact for target in plan.targets for artifact in target.files()]
    wanted += [artifact for reports in (tests or {}).values() for artifact in reports]
    needed = scheduler.actions(plan.graph.needed_for(wanted))
    labels = tuple(dict.fromkeys([*(str(target.node.label) for target in plan.targets), *(tests or ())]))
    reporter.emit(BuildStarted(labels, len(needed), request.jobs, tuple(needed)))
    try:
        report = scheduler.build(wanted)
    except KeyboardInterrupt:
        with suppress(ModelbuildError):
            _lay_out(workspace, engine, plan, scheduler, seen)
        raise
    built = _lay_out(workspace, engine, plan, scheduler, seen)
    code = ExitCode.OK if len(built) == len(plan.targets) else ExitCode.BUILD_FAILED
    return Result(tuple(built), code.with_loading_errors() if plan.incomplete else code, len(report.keys))


def _lay_out(workspace: Workspace, engine: Engine, plan: Plan, scheduler: Scheduler, seen: Seen) -> list[BuiltTarget]:
    """Lay out the outputs of the targets that are built, also after an interruption. Returns these targets."""
    request, reporter = engine.request, engine.reporter
    built: list[BuiltTarget] = []
    for target in plan.targets:
        label, config = str(target.node.label), config_name(target.device)
        culprit = scheduler.culprit(target.files())
        if culprit is not None:
            reporter.emit(TargetFailed(label, config, culprit))
            continue
        folder = "/".join(part for part in (config, target.node.label.package, target.node.label.name) if part)
        outputs = _outputs(plan, scheduler, engine.sources, target)
        if request.remote.leaves_outputs:
            outputs = {}
        lay = partial(lay_out, engine.store, workspace.root / OUTPUT_FOLDER, folder, outputs)
        seen.outputs.update((f"{OUTPUT_FOLDER}/{path}", laid) for path, laid in scheduler.keeping(lay).items())
        paths = tuple(f"{OUTPUT_FOLDER}/{folder}/{name}" for name in outputs)
        made = BuiltTarget(label, config, paths, target.toolchain)
        built.append(made)
        reporter.emit(TargetBuilt(label, config, made.outputs))
    return built


def _outputs(plan: Plan, scheduler: Scheduler, sources: Sources, target: ConfiguredTarget) -> Mapping[str, Value]:
    """Return a target's files by their names below the target's folder. Raises LoadingError for two with the same
    name."""
    found: dict[str, Artifact] = {}
    for artifact in target.files():
        name = plan.graph.basename(scheduler.values.resolve(artifact))
        if found.setdefault(name, artifact) != artifact:
            raise LoadingError(f"{target.node.label} has two files called '{name}'", plan.location(target))
    return {
        name: sources.keep(artifact.path) if isinstance(artifact, SourceArtifact) else scheduler.values.value(artifact)
        for name, artifact in found.items()
    }
