"""The whole way: load rules and targets, analyse, run what is out of date, lay out what was asked for."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import modelbuild
from modelbuild.actions import Artifact, FileEntry, SourceArtifact, Value
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.rules import Rules, load_rules
from modelbuild.building.narrow import Rest, gather
from modelbuild.building.note import note
from modelbuild.building.request import BuiltTarget, Request, Result
from modelbuild.building.snapshot import Seen, Snapshots, python_folders, stamp
from modelbuild.errors import BuildError, ExitCode, LoadingError
from modelbuild.execution.keys import Keys
from modelbuild.execution.local import LocalExecutor
from modelbuild.execution.resources import ResourcePool, machine
from modelbuild.execution.running import Running
from modelbuild.execution.scheduler import Scheduler
from modelbuild.execution.step_code import StepCode
from modelbuild.execution.values import Values
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.loading.patterns import expand_patterns
from modelbuild.remote.open import executing, shared
from modelbuild.report.events import BuildFinished, BuildStarted, Loaded, Reporter, TargetBuilt, TargetFailed
from modelbuild.store.interface import Store
from modelbuild.store.local import LocalStore, open_store
from modelbuild.store.output_tree import lay_out
from modelbuild.workspace import OUTPUT_FOLDER, Workspace


def full_build(
    workspace: Workspace,
    request: Request,
    snapshots: Snapshots,
    reporter: Reporter,
    started: float,
    rest: Rest | None = None,
) -> Result:
    """Build, and remember what was looked at if all went well. With `rest` only its stale targets are loaded."""
    (workspace.root / OUTPUT_FOLDER).mkdir(exist_ok=True)
    started_ns = time.time_ns()
    seen = Seen(python=python_folders())
    rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations())
    loader = Loader(workspace, rules.by_name)
    analyzer = Analyzer(loader, rules, workspace.config.default_device)
    asked = request if rest is None else replace(request, patterns=tuple(sorted(rest.stale)))
    targets = analyze(loader, analyzer, asked, reporter)
    config = workspace.config
    with (
        open_store(config.cache_dir, config.cache_size) as local,
        shared(local, request.remote, reporter) as store,
    ):
        sources = Sources(workspace.root, local)
        code = StepCode({"modelbuild": Path(modelbuild.__file__).parent, **rules.packages})
        here = LocalExecutor(workspace.root, store, local.scratch, rules.packages, keep_sandboxes=request.sandbox_debug)
        executor = executing(here, request.remote, store, local, code, reporter)
        scheduler = Scheduler(
            analyzer.graph,
            store,
            Running(executor, ResourcePool(machine(request.jobs)), reporter, request.jobs, request.keep_going),
            Keys(code, store),
            code.names,
            Values(sources.entry),
            reporter,
        )
        try:
            result = _build(workspace, request, reporter, analyzer, targets, scheduler, sources, store)
        finally:
            executor.close()
        note(workspace, analyzer, scheduler, code, result, time.monotonic() - started)
    for target in rest.targets if rest is not None else ():
        reporter.emit(TargetBuilt(target.label, target.config, target.outputs))
    if result.code == ExitCode.OK:
        look_back(rules, loader, sources, seen)
        reads = gather(analyzer, scheduler.report.keys, loader.files_read())
        if rest is not None:
            result = Result(rest.merge(result.targets), actions=rest.actions(reads))
        snapshots.save(request, seen, started_ns, result.targets, result.actions, reads, rest)
    else:
        snapshots.forget(request)
    reporter.emit(BuildFinished(time.monotonic() - started, actions=result.actions))
    return result


def analyze(loader: Loader, analyzer: Analyzer, request: Request, reporter: Reporter) -> list[ConfiguredTarget]:
    """The targets asked for, in each configuration asked for. Raises UsageError and LoadingError."""
    targets = expand_patterns(loader, request.patterns, request.package)
    reporter.emit(Loaded(len(targets)))
    devices: Iterable[Label | None] = request.devices or (None,)
    return [analyzer.analyze(target.label, device) for device in devices for target in targets]


def _build(
    workspace: Workspace,
    request: Request,
    reporter: Reporter,
    analyzer: Analyzer,
    targets: list[ConfiguredTarget],
    scheduler: Scheduler,
    sources: Sources,
    store: Store,
) -> Result:
    wanted = [artifact for target in targets for artifact in target.files()]
    needed = scheduler.actions(analyzer.graph.needed_for(wanted))
    reporter.emit(BuildStarted(tuple(str(t.node.label) for t in targets), len(needed), request.jobs, tuple(needed)))
    report = scheduler.build(wanted)
    built: list[BuiltTarget] = []
    for target in targets:
        label, config = str(target.node.label), config_name(target.device)
        culprit = scheduler.culprit(target.files())
        if culprit is not None:
            reporter.emit(TargetFailed(label, config, culprit))
            continue
        folder = "/".join(part for part in (config, target.node.label.package, target.node.label.name) if part)
        outputs = _outputs(analyzer, scheduler, sources, target)
        if request.remote.leaves_outputs:
            outputs = {}
        lay = partial(lay_out, store, workspace.root / OUTPUT_FOLDER, folder, outputs)
        scheduler.keeping(lay)
        made = BuiltTarget(label, config, tuple(f"{OUTPUT_FOLDER}/{folder}/{name}" for name in outputs))
        built.append(made)
        reporter.emit(TargetBuilt(label, config, made.outputs))
    code = ExitCode.OK if len(built) == len(targets) else ExitCode.BUILD_FAILED
    return Result(tuple(built), code, len(report.keys))


def _outputs(
    analyzer: Analyzer, scheduler: Scheduler, sources: Sources, target: ConfiguredTarget
) -> Mapping[str, Value]:
    """A target's files by the name that each gets below the target's folder. Raises LoadingError for two of a name."""
    found: dict[str, Artifact] = {}
    for artifact in target.files():
        name = analyzer.graph.basename(scheduler.values.resolve(artifact))
        if found.setdefault(name, artifact) != artifact:
            where = analyzer.loader.target(target.node.label, None).location(())
            raise LoadingError(f"{target.node.label} gives two files called '{name}'", where)
    return {
        name: sources.keep(artifact.path) if isinstance(artifact, SourceArtifact) else scheduler.values.value(artifact)
        for name, artifact in found.items()
    }


def config_name(device: Label | None) -> str:
    """A configuration's folder in the output tree: its device's label with '~' for '/' and ':', which no label has."""
    if device is None:
        return "default"
    return f"{device.package}/{device.name}".strip("/").replace("/", "~")


class Sources:
    """The workspace's files by content, and the stamp each had when its content was looked at."""

    def __init__(self, root: Path, store: LocalStore) -> None:
        self._root = root
        self._store = store
        self._known: dict[str, tuple[Path, FileEntry]] = {}
        self.stamps: dict[str, tuple[int, int, int]] = {}

    def entry(self, path: str) -> tuple[Path, FileEntry]:
        """A file's absolute path and content, looked at once a build: all actions see the same."""
        known = self._known.get(path)
        if known is None:
            absolute = self._root / path
            state = self._store.files.digest(absolute)
            self.stamps[path] = (state.stamp.size, state.stamp.ctime_ns, state.stamp.inode)
            known = self._known[path] = (absolute, state.entry)
        return known

    def keep(self, path: str) -> FileEntry:
        """Have the store keep a file that is itself an output. Raises BuildError when it changed meanwhile."""
        absolute, entry = self.entry(path)
        if self._store.missing([entry.digest]):
            copy = self._store.scratch / f"source-{uuid.uuid4().hex}"
            shutil.copy(absolute, copy)
            if self._store.put_file(copy) != entry.digest:
                raise BuildError(f"{path} changed during the build; build again")
        return entry


def look_back(rules: Rules, loader: Loader, sources: Sources, seen: Seen) -> None:
    """Collect everything that decided the build: what was read, listed, or relied on not to be there."""
    seen.files.update({path: (s.size, s.ctime_ns, s.inode) for path, s in loader.files_read().items()})
    seen.files.update(sources.stamps)
    for folder in (Path(modelbuild.__file__).parent, *rules.packages.values()):
        for path in folder.rglob("*.py"):
            seen.files[str(path)] = stamp(str(path))
        seen.python.update({str(p): stamp(str(p)) for p in (folder, *folder.rglob("*/")) if p.name != "__pycache__"})
    seen.folders.update({path: (s.mtime_ns, s.names) for path, s in loader.folders_listed().items()})
    seen.absent.extend(sorted(loader.files_absent()))
