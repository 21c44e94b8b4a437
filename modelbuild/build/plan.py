"""The plan of a build: the requested targets, analysed, and the graph of their actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import modelbuild
from modelbuild.action_graph import ActionGraph
from modelbuild.actions import Artifact
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.open import open_to_build
from modelbuild.api.providers import Runnable
from modelbuild.build.import_folders import folders_of, importable
from modelbuild.build.request import ExpectedTarget, Request
from modelbuild.build.snapshot import Seen, stamp
from modelbuild.build.target_reads import TargetReads, gather_reads
from modelbuild.errors import LoadingError, Location
from modelbuild.events import Loaded, Notice, Reporter, TargetSkipped
from modelbuild.history.action_facts import TargetFacts, attributes_of
from modelbuild.labels import Label
from modelbuild.loading.patterns import expand_patterns
from modelbuild.store.output_tree import OWN_NAMES
from modelbuild.workspace.workspace import Workspace

# The configuration without a device.
NO_DEVICE = "default"


@dataclass(frozen=True, slots=True)
class Plan:
    """The targets to build, each in one configuration, and the actions that their rules declared. `incomplete`: others
    have errors in their declarations and were skipped."""

    analyzer: Analyzer
    targets: tuple[ConfiguredTarget, ...]
    incomplete: bool = False

    @property
    def graph(self) -> ActionGraph:
        return self.analyzer.graph

    @property
    def packages(self) -> Mapping[str, Path]:
        """The folder of each rule package, by import name."""
        return self.analyzer.rules.packages

    def attributes(self) -> Mapping[str, TargetFacts]:
        """Return the attributes of every analysed target, by label (see modelbuild.history.action_facts)."""
        return attributes_of(self.analyzer)

    def location(self, target: ConfiguredTarget) -> Location:
        """Return the location of a target's declaration."""
        return self.analyzer.loader.target(target.node.label, None).location(())

    def expected(self) -> list[ExpectedTarget]:
        """Return the facts about the targets that are known before the build."""
        return [
            ExpectedTarget(
                str(target.node.label),
                self._names(target.files()),
                next((p.method_inputs for p in target.providers if isinstance(p, Runnable)), {}),
            )
            for target in self.targets
        ]

    def reads(self, ran: Iterable[str], seen: Seen) -> TargetReads:
        """Return the files and targets that targets depend on, given the ids of the required actions. Adds the files
        that decided the graph to `seen`."""
        collect_seen(self.analyzer, seen)
        return gather_reads(self.analyzer, ran, self.analyzer.loader.files_read())

    def _names(self, files: tuple[Artifact, ...]) -> tuple[str, ...] | None:
        """Return files' names; None if one of them comes from an expansion."""
        if any(map(self.graph.is_promise, files)):
            return None
        return tuple(map(self.graph.basename, files))


def make_plan(workspace: Workspace, request: Request, reporter: Reporter) -> Plan:
    """Return a plan. Raises UsageError, and LoadingError as analyze() does."""
    return analyze(opened(workspace, request, reporter), request, reporter)


def opened(workspace: Workspace, request: Request, reporter: Reporter, test_filter: str = "") -> Analyzer:
    """Return an analyzer with the request's toolchain. Raises as open_to_build() does."""
    return open_to_build(workspace, test_filter, request.toolchains(), lambda text: reporter.emit(Notice(text)))


def analyze(analyzer: Analyzer, request: Request, reporter: Reporter) -> Plan:
    """Return the requested targets, in each requested configuration. Raises UsageError, and LoadingError unless the
    request keeps going: then targets with errors are skipped."""
    skipped: list[str] = []

    def skip(label: str, error: LoadingError) -> None:
        if not request.keep_going:
            raise error
        skipped.append(label)
        reporter.emit(TargetSkipped(label, str(error), str(error.location or "")))

    for label, _ in request.runners:
        analyzer.device(label)
    targets = expand_patterns(analyzer.loader, request.patterns, request.package, skip=skip, places=request.places)
    reporter.emit(Loaded(len(targets)))
    found = []
    for device in request.devices or (None,):
        for target in targets:
            try:
                found.append(analyzer.analyze(target.label, device))
            except LoadingError as error:
                skip(str(target.label), error)
    analyzer.toolchains.make_all()
    return Plan(analyzer, tuple(found), bool(skipped))


def config_name(device: Label | None) -> str:
    """Return a configuration's folder in the output tree: its device's label with '~' for '/' and ':' ('~' is in no
    label), prefixed with '~' if the name has another use."""
    if device is None:
        return NO_DEVICE
    name = f"{device.package}/{device.name}".strip("/").replace("/", "~")
    return f"~{name}" if name in (NO_DEVICE, *OWN_NAMES) else name


def collect_seen(analyzer: Analyzer, seen: Seen) -> None:
    """Add everything that decided the graph: files that were read, listed, or required to be present or absent."""
    loader, packages = analyzer.loader, analyzer.rules.packages
    read = {**analyzer.entries.read, **loader.files_read(), **analyzer.toolchain_files}
    seen.files.update({path: (s.size, s.ctime_ns, s.inode) for path, s in read.items()})
    for folder in (Path(modelbuild.__file__).parent, *packages.values()):
        for path in folder.rglob("*.py"):
            seen.files[str(path)] = stamp(str(path))
        seen.python.update(importable(folders_of(folder)))
    seen.folders.update(loader.folders_listed())
    seen.present.update(loader.files_present())
    seen.absent.update(loader.files_absent())
