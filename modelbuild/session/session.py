"""A session: the only way to plan, run, lay out and record. Build, test, fetch and attest call it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from modelbuild.actions import Artifact, DerivedArtifact, Expansion, SourceArtifact, Value
from modelbuild.analysis.analyze import ConfiguredTarget
from modelbuild.build_record.snapshots import Seen, Snapshot
from modelbuild.build_record.stale_targets import BuiltTarget, StaleTargets
from modelbuild.errors import ExitCode, LoadingError, ModelbuildError, ResultDiffers
from modelbuild.events import (
    ActionFinished,
    ActionStarted,
    BuildFinished,
    BuildStarted,
    Event,
    Notice,
    Planned,
    Reporter,
    Status,
    TargetBuilt,
    TargetFailed,
)
from modelbuild.execution.executor import Executor
from modelbuild.execution.fork_server_client import ForkServer
from modelbuild.execution.scheduling.scheduler import Scheduler
from modelbuild.session.dry_run import dry_run
from modelbuild.session.engine import Engine, open_engine
from modelbuild.session.history import record_history
from modelbuild.session.plan import Plan, config_name, make_plan
from modelbuild.session.request import Request
from modelbuild.session.result import Result
from modelbuild.store.output_tree import OutputStamp, lay_out, make_root
from modelbuild.workspace.workspace import OUTPUT_FOLDER, Workspace

T = TypeVar("T")

# Values by subject, which is a target or an action, and name.
Measures: TypeAlias = Mapping[tuple[str, str], float]


class Session:
    """Work on a request, from its plan to its end: make_plan(), then preview() or run(), lay_out() and finish().

    seen       the inputs and outputs
    plan       after make_plan()
    engine     after run(), as `scheduler`
    unbuilt    whether a target, or another requested artifact, was not built
    """

    plan: Plan
    engine: Engine
    scheduler: Scheduler

    def __init__(
        self,
        workspace: Workspace,
        request: Request,
        reporter: Reporter,
        seen: Seen,
        spare: ForkServer | None = None,
    ) -> None:
        """`spare`: see LocalExecutor."""
        self.workspace = workspace
        self.request = request
        self.reporter = reporter
        self.seen = seen
        self.unbuilt = False
        self._spare = spare
        self._built: list[BuiltTarget] = []
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def make_plan(self, test_filter: str = "") -> Plan:
        """Load and analyse the requested targets. Raises UsageError, and LoadingError unless the request keeps going:
        then targets with errors are skipped."""
        self.plan = make_plan(self.workspace, self.request, self.reporter, test_filter)
        return self.plan

    def preview(
        self, targets: Sequence[ConfiguredTarget], others: Sequence[tuple[ConfiguredTarget, Sequence[Artifact]]] = ()
    ) -> ExitCode:
        """Report the work that run() would do. No action runs."""
        wanted = self._wanted(targets, others)
        dry = dry_run(self.plan.analyzer, wanted, self.request.means.verify_sources)
        named = {target.id: (str(target.node.label), config_name(target.device)) for target in _all(targets, others)}
        cached = sum(name in dry.report.statuses for name in dry.needed)
        grows = _grows(self.plan, dry.scheduler.values.resolve, wanted)
        self.reporter.emit(Planned(tuple(named.values()), len(dry.needed), cached, grows))
        self.reporter.emit(BuildFinished(time.monotonic() - self.seen.started))
        return self._code(ExitCode.OK)

    def run(
        self,
        targets: Sequence[ConfiguredTarget],
        others: Sequence[tuple[ConfiguredTarget, Sequence[Artifact]]] = (),
        wrap: Callable[[Engine], Executor] = lambda engine: engine.executor,
        afresh: Collection[str] = (),
    ) -> None:
        """Run the actions of the targets' files, and of other artifacts by their targets. If the user interrupts it,
        finished targets are laid out.

        wrap    returns the executor, which may call the engine's
        afresh  the actions that run although the cache contains their results
        """
        make_root(self.workspace.root / OUTPUT_FOLDER)
        wanted = self._wanted(targets, others)
        analyzer, graph = self.plan.analyzer, self.plan.graph
        self.engine = self._open.enter_context(
            open_engine(self.workspace, self.request.means, analyzer, self.reporter, self._spare)
        )
        self.reporter = self.engine.reporter
        self.scheduler = self.engine.scheduler(analyzer, wrap(self.engine), afresh)
        needed = self.scheduler.actions(graph.needed_for(wanted))
        labels = tuple(dict.fromkeys(str(target.node.label) for target in _all(targets, others)))
        self.reporter.emit(BuildStarted(labels, len(needed), self.request.means.jobs))
        try:
            self.scheduler.build(wanted)
        except KeyboardInterrupt:
            with suppress(ModelbuildError):
                self.lay_out(targets)
            raise

    def end(self, target: ConfiguredTarget, artifacts: Iterable[Artifact], outputs: Sequence[str] = ()) -> bool:
        """Report whether a target's artifacts were built, and return it. `outputs` are paths in the workspace."""
        label, config = str(target.node.label), config_name(target.device)
        culprit = self.scheduler.culprit(artifacts)
        self.unbuilt |= culprit is not None
        if culprit is not None:
            self.reporter.emit(TargetFailed(label, config, culprit))
        else:
            self.reporter.emit(TargetBuilt(label, config, tuple(outputs)))
        return culprit is None

    def lay_out(self, targets: Iterable[ConfiguredTarget]) -> list[BuiltTarget]:
        """Lay out the files of the targets that are built, and report each target. Returns the built targets."""
        built: list[BuiltTarget] = []
        for target in targets:
            files, names = self.plan.files(target), list[str]()
            if self.scheduler.culprit(files) is None and not self.request.means.remote.leaves_outputs:
                for folder, artifacts in self.plan.folders(target).items():
                    values = self._named(target, artifacts)
                    self.put(folder, values)
                    names += [f"{OUTPUT_FOLDER}/{folder}/{name}" for name in values]
            if self.end(target, files, names):
                label, config = str(target.node.label), config_name(target.device)
                built.append(BuiltTarget(label, config, tuple(names), target.toolchain))
        self._built += built
        return built

    def lay_out_needed(self, targets: Iterable[ConfiguredTarget]) -> None:
        """Lay out those files of targets that are built because other targets needed them. Reports nothing."""
        if self.request.means.remote.leaves_outputs:
            return
        for target in targets:
            for folder, artifacts in self.plan.folders(target).items():
                built = [each for each in artifacts if self.scheduler.culprit([each]) is None]
                if built:
                    self.put(folder, self._named(target, built), len(built) == len(artifacts))

    def put(self, folder: str, values: Mapping[str, Value], whole: bool = True) -> None:
        """Lay out files by their names below a folder of the output tree. `whole`: see lay_out() there."""
        lay = partial(lay_out, self.engine.store, self.workspace.root / OUTPUT_FOLDER, folder, values, whole)
        laid: Mapping[str, OutputStamp] = self.scheduler.keeping(lay)
        self.seen.outputs.update({f"{OUTPUT_FOLDER}/{path}": stamp for path, stamp in laid.items()})

    def result(self, targets: Sequence[BuiltTarget] = (), code: ExitCode = ExitCode.OK) -> Result:
        """Return the result; `code` is the exit code for problems other than failed actions."""
        code = ExitCode.BUILD_FAILED if self.unbuilt else code
        return Result(tuple(targets), self._code(code), len(self.scheduler.report.keys))

    def record(self, snapshot: Snapshot, result: Result, stale: StaleTargets | None = None) -> Result:
        """Record the inputs and outputs of a result, so that the next equal request finds that nothing changed. With
        `stale`, only these targets were built. Returns the result for all targets."""
        self.seen.files.update(self.engine.sources.stamps)
        self.seen.folders.update(self.engine.sources.folders)
        self.seen.absent.update(self.engine.sources.absent)
        reads = self.plan.reads(self.scheduler.report.keys, self.seen)
        reads.contents = self.engine.sources.contents()
        if stale is not None:
            result = replace(result, targets=stale.merge(result.targets), actions=stale.actions(reads))
        snapshot.save(self.seen, result.targets, result.actions, reads, stale)
        return result

    def finish(self, result: Result, measures: Measures | None = None) -> Result:
        """Write the history, and report the end. `measures` are values that only some builds have, see BuildFacts."""
        seconds = time.monotonic() - self.seen.started
        known = replace(result, targets=tuple(self._built))
        attributes, code = self.plan.attributes(), self.engine.code
        record_history(self.workspace, attributes, self.scheduler, code, known, seconds, measures)
        self.reporter.emit(BuildFinished(seconds, actions=result.actions, exit=result.code))
        return result

    def _wanted(
        self, targets: Iterable[ConfiguredTarget], others: Iterable[tuple[ConfiguredTarget, Iterable[Artifact]]]
    ) -> list[Artifact]:
        wanted = [artifact for target in targets for artifact in self.plan.files(target)]
        return [*wanted, *(artifact for _, artifacts in others for artifact in artifacts)]

    def _code(self, code: ExitCode) -> ExitCode:
        return code.with_loading_errors() if self.plan.incomplete else code

    def _named(self, target: ConfiguredTarget, artifacts: Iterable[Artifact]) -> Mapping[str, Value]:
        """Return artifacts of a target by their names below its folder. Raises LoadingError for two artifacts with the
        same name."""
        found: dict[str, Artifact] = {}
        for artifact in artifacts:
            name = self.plan.graph.basename(self.scheduler.values.resolve(artifact))
            if found.setdefault(name, artifact) != artifact:
                raise LoadingError(f"{target.node.label} has two files called '{name}'", self.plan.location(target))
        keep, value = self.engine.sources.keep, self.scheduler.values.value
        return {
            name: keep(artifact.path) if isinstance(artifact, SourceArtifact) else value(artifact)
            for name, artifact in found.items()
        }


def in_session(
    workspace: Workspace,
    request: Request,
    reporter: Reporter,
    work: Callable[[Session], T],
    seen: Seen | None = None,
    spare: ForkServer | None = None,
) -> T:
    """Return the result of `work` for a session. Calls it again, without results of the remote cache, if an action's
    output differs from the remote cache's. Raises ModelbuildError for errors before any action runs, such as a
    read-only output tree."""
    seen = seen or Seen.start()
    reporter = _EachEventOnce(reporter)  # the second build finds results of the first build in the cache
    try:
        with Session(workspace, request, reporter, seen, spare) as session:
            return work(session)
    except ResultDiffers as problem:
        reporter.emit(Notice(f"{problem}; restarting without results of the remote cache"))
    request = request.with_remote(replace(request.means.remote, lookups=False))
    with Session(workspace, request, reporter, seen, spare) as session:
        return work(session)


def _all(
    targets: Iterable[ConfiguredTarget], others: Iterable[tuple[ConfiguredTarget, object]]
) -> list[ConfiguredTarget]:
    return [*targets, *(target for target, _ in others)]


def _grows(plan: Plan, resolve: Callable[[Artifact], Artifact], wanted: Iterable[Artifact]) -> bool:
    """Return whether an expansion that the artifacts depend on waits for an action."""
    nodes = [plan.graph.nodes[name] for name in plan.graph.needed_for(wanted)]
    return any(
        plan.graph.is_promise(resolve(DerivedArtifact(node.id, promise)))
        for node in nodes
        if isinstance(node, Expansion)
        for promise in node.promises
    )


class _EachEventOnce:
    """Suppress repeated "cached" and "failed" events for an action already reported."""

    def __init__(self, inner: Reporter) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._ended: dict[str, Status] = {}

    def emit(self, event: Event) -> None:
        if not self._is_repeated(event):
            self._inner.emit(event)

    def close(self) -> None:
        self._inner.close()

    def _is_repeated(self, event: Event) -> bool:
        with self._lock:
            match event:
                case ActionStarted():
                    return self._ended.get(event.id) == "failed"
                case ActionFinished():
                    known = event.id in self._ended
                    before = self._ended.setdefault(event.id, event.status)
                    return known and (event.status == "cached" or before == "failed")
        return False
