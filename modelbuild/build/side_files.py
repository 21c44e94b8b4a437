"""Build files that targets have besides their outputs, such as checks and reports, without laying them out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from modelbuild.actions import Artifact, FileEntry
from modelbuild.analysis.analyze import ConfiguredTarget
from modelbuild.api.providers import Provider
from modelbuild.build.engine import Engine, open_engine
from modelbuild.build.plan import Plan, config_name, make_plan
from modelbuild.build.request import Request
from modelbuild.build.retry import retry_without_remote
from modelbuild.errors import ExitCode, UsageError
from modelbuild.events import BuildFinished, BuildStarted, Reporter, TargetBuilt, TargetFailed
from modelbuild.execution.scheduling.scheduler import Scheduler
from modelbuild.store.output_tree import make_root
from modelbuild.workspace.workspace import OUTPUT_FOLDER, Workspace

FilesOf = Callable[[Provider], tuple[Artifact, ...]]
"""Returns the files of a provider; () for providers of other kinds."""


def build_side_files(
    workspace: Workspace, request: Request, reporter: Reporter, files_of: FilesOf, nothing: str
) -> tuple[ExitCode, Mapping[str, tuple[bytes, ...]]]:
    """Build the files of the requested targets, and of all of them although some fail. Returns the contents of those
    that are no folders, by the targets' labels. Raises ModelbuildError for errors before any action runs, and
    UsageError with the text `nothing` if no target has such files, and none was skipped for an error."""
    started = time.monotonic()
    make_root(workspace.root / OUTPUT_FOLDER)

    def work(request: Request, reporter: Reporter) -> tuple[ExitCode, Mapping[str, tuple[bytes, ...]]]:
        plan = make_plan(workspace, request, reporter)
        found = [(target, files) for target in plan.targets for each in target.providers if (files := files_of(each))]
        if not found and not plan.incomplete:
            raise UsageError(nothing)
        return _once(workspace, request, plan, found, reporter, started)

    return retry_without_remote(work, request, reporter)


def _once(
    workspace: Workspace,
    request: Request,
    plan: Plan,
    found: list[tuple[ConfiguredTarget, tuple[Artifact, ...]]],
    reporter: Reporter,
    started: float,
) -> tuple[ExitCode, Mapping[str, tuple[bytes, ...]]]:
    wanted = [artifact for _, files in found for artifact in files]
    code = ExitCode.OK
    contents: dict[str, tuple[bytes, ...]] = {}
    with open_engine(workspace, request, plan.analyzer, reporter) as engine:
        scheduler = engine.scheduler(plan.analyzer)
        needed = scheduler.actions(plan.graph.needed_for(wanted))
        labels = tuple(str(target.node.label) for target, _ in found)
        reporter.emit(BuildStarted(labels, len(needed), request.jobs, tuple(needed)))
        scheduler.build(wanted)
        for target, files in found:
            label, config = str(target.node.label), config_name(target.device)
            culprit = scheduler.culprit(files)
            if culprit is None:
                read = partial(_read, engine, scheduler, files)
                contents[label] = scheduler.keeping(read)
                reporter.emit(TargetBuilt(label, config, ()))
            else:
                code = ExitCode.BUILD_FAILED
                reporter.emit(TargetFailed(label, config, culprit))
    code = code.with_loading_errors() if plan.incomplete else code
    reporter.emit(BuildFinished(time.monotonic() - started, exit=code))
    return code, contents


def _read(engine: Engine, scheduler: Scheduler, files: tuple[Artifact, ...]) -> tuple[bytes, ...]:
    values = [scheduler.values.value(artifact) for artifact in files]
    return tuple(engine.store.read_bytes(value.digest) for value in values if isinstance(value, FileEntry))
