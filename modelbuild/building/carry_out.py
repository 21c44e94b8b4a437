"""Do what targets declared: run what is out of date, lay out what was asked for, remember what was looked at."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from modelbuild.actions import Artifact, SourceArtifact, Value
from modelbuild.building.declared import Declared, Wanted
from modelbuild.building.engine import Engine, open_engine
from modelbuild.building.narrow import Rest
from modelbuild.building.note import note
from modelbuild.building.request import BuiltTarget, Request, Result
from modelbuild.building.snapshot import Seen, Snapshots
from modelbuild.building.sources import Sources
from modelbuild.errors import ExitCode, LoadingError
from modelbuild.events import BuildFinished, BuildStarted, Reporter, TargetBuilt, TargetFailed
from modelbuild.execution.scheduler import Scheduler
from modelbuild.execution.warm import Warm
from modelbuild.store.output_tree import lay_out
from modelbuild.workspace import OUTPUT_FOLDER, Workspace


def carry_out(
    workspace: Workspace,
    request: Request,
    snapshots: Snapshots,
    reporter: Reporter,
    started: float,
    seen: Seen,
    declared: Declared,
    rest: Rest | None = None,
    spare: Warm | None = None,
) -> Result:
    """Build, and remember what was looked at if all went well. With `rest` only its stale targets are declared."""
    with open_engine(workspace, request, declared.packages, reporter, spare) as engine:
        scheduler = engine.scheduler(declared.graph)
        result = _build(workspace, engine, declared, scheduler, seen)
        seconds = time.monotonic() - started
        note(workspace, declared.graph, declared.attributes, scheduler, engine.code, result, seconds)
    for target in rest.targets if rest is not None else ():
        reporter.emit(TargetBuilt(target.label, target.config, target.outputs))
    if result.code == ExitCode.OK:
        seen.files.update(engine.sources.stamps)
        seen.folders.update(engine.sources.folders)
        reads = declared.reads(scheduler.report.keys, seen) if declared.reads is not None else None
        if rest is not None:
            result = Result(rest.merge(result.targets), actions=rest.actions(reads))
        snapshots.save(request, seen, result.targets, result.actions, reads, rest)
    else:
        snapshots.forget(request)
    reporter.emit(BuildFinished(time.monotonic() - started, actions=result.actions))
    return result


def _build(workspace: Workspace, engine: Engine, declared: Declared, scheduler: Scheduler, seen: Seen) -> Result:
    request, reporter = engine.request, engine.reporter
    wanted = [artifact for target in declared.targets for artifact in target.files]
    needed = scheduler.actions(declared.graph.needed_for(wanted))
    labels = tuple(str(target.label) for target in declared.targets)
    reporter.emit(BuildStarted(labels, len(needed), request.jobs, tuple(needed)))
    report = scheduler.build(wanted)
    built: list[BuiltTarget] = []
    for target in declared.targets:
        label, config = str(target.label), target.config
        culprit = scheduler.culprit(target.files)
        if culprit is not None:
            reporter.emit(TargetFailed(label, config, culprit))
            continue
        folder = "/".join(part for part in (config, target.label.package, target.label.name) if part)
        outputs = _outputs(declared, scheduler, engine.sources, target)
        if request.remote.leaves_outputs:
            outputs = {}
        lay = partial(lay_out, engine.store, workspace.root / OUTPUT_FOLDER, folder, outputs)
        seen.outputs.update((f"{OUTPUT_FOLDER}/{path}", laid) for path, laid in scheduler.keeping(lay).items())
        made = BuiltTarget(label, config, tuple(f"{OUTPUT_FOLDER}/{folder}/{name}" for name in outputs))
        built.append(made)
        reporter.emit(TargetBuilt(label, config, made.outputs))
    code = ExitCode.OK if len(built) == len(declared.targets) else ExitCode.BUILD_FAILED
    return Result(tuple(built), code, len(report.keys))


def _outputs(declared: Declared, scheduler: Scheduler, sources: Sources, target: Wanted) -> Mapping[str, Value]:
    """A target's files by the name that each gets below the target's folder. Raises LoadingError for two of a name."""
    found: dict[str, Artifact] = {}
    for artifact in target.files:
        name = declared.graph.basename(scheduler.values.resolve(artifact))
        if found.setdefault(name, artifact) != artifact:
            where = target.where() if target.where is not None else None
            raise LoadingError(f"{target.label} gives two files called '{name}'", where)
    return {
        name: sources.keep(artifact.path) if isinstance(artifact, SourceArtifact) else scheduler.values.value(artifact)
        for name, artifact in found.items()
    }
