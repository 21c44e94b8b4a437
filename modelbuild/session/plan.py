"""The plan of a build: the requested targets, analysed, and the graph of their actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import modelbuild
from modelbuild.action_graph import ActionGraph
from modelbuild.actions import Artifact
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.open import open_to_build
from modelbuild.api.providers import OutputGroups, Runnable
from modelbuild.build_record.import_folders import folders_of, importable, imported_files
from modelbuild.build_record.snapshots import Seen, stamp
from modelbuild.build_record.target_reads import TargetReads, gather_reads
from modelbuild.code.corrected_requirements import REQUIREMENTS
from modelbuild.errors import LoadingError, Location, UsageError, did_you_mean
from modelbuild.events import Loaded, Notice, Reporter, TargetSkipped
from modelbuild.history.action_facts import TargetFacts, attributes_of
from modelbuild.labels import Label
from modelbuild.loading.patterns import expand_patterns
from modelbuild.session.request import Request
from modelbuild.session.result import ExpectedTarget
from modelbuild.store.output_tree import OWN_NAMES
from modelbuild.workspace.flags import DEFAULT_GROUP
from modelbuild.workspace.workspace import BUILT_IN, LIBRARY, Workspace

# The configuration without a device.
NO_DEVICE = "default"


@dataclass(frozen=True, slots=True)
class Plan:
    """The targets to build, each in one configuration, and the actions that their rules declared. `groups` are the
    requested output groups. `incomplete`: targets with errors in their declarations were skipped."""

    analyzer: Analyzer
    targets: tuple[ConfiguredTarget, ...]
    groups: tuple[str, ...]
    incomplete: bool = False

    @property
    def graph(self) -> ActionGraph:
        return self.analyzer.graph

    def attributes(self) -> Mapping[str, TargetFacts]:
        """Return the attributes of every analysed target, by label (see modelbuild.history.action_facts)."""
        return attributes_of(self.analyzer)

    def location(self, target: ConfiguredTarget) -> Location:
        """Return the location of a target's declaration."""
        return self.analyzer.loader.target(target.node.label, None).location(())

    def files(self, target: ConfiguredTarget) -> tuple[Artifact, ...]:
        """Return the files of a target's requested output groups."""
        known = _groups_of(target)
        return tuple(artifact for group in self.groups for artifact in known.get(group, ()))

    def folders(self, target: ConfiguredTarget) -> Mapping[str, tuple[Artifact, ...]]:
        """Return the files of each requested output group, by its folder in the output tree."""
        known = _groups_of(target)
        top = output_folder(target)
        return {
            top if group == DEFAULT_GROUP else f"{top}~{group}": known[group] for group in self.groups if group in known
        }

    def expected(self) -> list[ExpectedTarget]:
        """Return the facts about the targets that are known before the build."""
        return [
            ExpectedTarget(
                str(target.node.label),
                self._names(self.files(target)),
                next((p.method_inputs for p in target.providers if isinstance(p, Runnable)), {}),
            )
            for target in self.targets
        ]

    def reads(self, ran: Iterable[str], seen: Seen) -> TargetReads:
        """Return the files and targets that targets depend on, given the ids of the required actions. Adds the files
        that decided the graph to `seen`."""
        _collect_seen(self.analyzer, seen)
        return gather_reads(self.analyzer, ran, self.analyzer.loader.files_read())

    def _names(self, files: tuple[Artifact, ...]) -> tuple[str, ...] | None:
        """Return the names of files; None if a file comes from an expansion."""
        if any(map(self.graph.is_promise, files)):
            return None
        return tuple(map(self.graph.basename, files))


def make_plan(workspace: Workspace, request: Request, reporter: Reporter, test_filter: str = "") -> Plan:
    """Return the requested targets, in each requested configuration, analysed in their toolchains. Raises UsageError,
    and as open_to_build() does. Raises LoadingError, unless the request keeps going; then targets with errors are
    skipped."""
    toolchains = request.means.toolchains()
    analyzer = open_to_build(workspace, test_filter, toolchains, lambda text: reporter.emit(Notice(text)))
    skipped: list[str] = []

    def skip(label: str, error: LoadingError) -> None:
        if not request.means.keep_going:
            raise error
        skipped.append(label)
        reporter.emit(TargetSkipped(label, str(error), str(error.location or "")))

    for label, _ in request.means.runners:
        analyzer.device(label)
    wanted = request.targets
    targets = expand_patterns(analyzer.loader, wanted.patterns, wanted.package, skip=skip, places=wanted.places)
    reporter.emit(Loaded(len(targets)))
    found = []
    for device in wanted.devices or (None,):
        for target in targets:
            try:
                found.append(analyzer.analyze(target.label, device))
            except LoadingError as error:
                skip(str(target.label), error)
    for name in dict.fromkeys(target.toolchain for target in analyzer.targets.values()):
        analyzer.toolchains.python(name)
    groups = tuple(dict.fromkeys(wanted.groups))
    if groups != (DEFAULT_GROUP,):
        found = _with_groups(found, groups, wanted.patterns, bool(skipped))
    return Plan(analyzer, tuple(found), groups, bool(skipped))


def _groups_of(target: ConfiguredTarget) -> Mapping[str, tuple[Artifact, ...]]:
    """Return the files of each of a target's output groups."""
    named = next((each.groups for each in target.providers if isinstance(each, OutputGroups)), {})
    return {DEFAULT_GROUP: target.files(), **named}


def _with_groups(
    targets: Sequence[ConfiguredTarget], groups: Sequence[str], patterns: Sequence[str], incomplete: bool
) -> list[ConfiguredTarget]:
    """Return the targets that have one of the groups. Raises UsageError for a group that no target has, unless targets
    were skipped."""
    known = dict.fromkeys(name for target in targets for name in _groups_of(target))
    for group in groups:
        if group not in known and not incomplete:
            hint = did_you_mean(group, known) or f"; groups: {', '.join(sorted(known))}"
            raise UsageError(f"no output group '{group}' in {' '.join(patterns)}{hint}")
    return [target for target in targets if not _groups_of(target).keys().isdisjoint(groups)]


def config_name(device: Label | None) -> str:
    """Return a configuration's folder in the output tree: its device's label with '~' for '/' and ':' ('~' is in no
    label), prefixed with '~' if the name has another use."""
    if device is None:
        return NO_DEVICE
    name = f"{device.package}/{device.name}".strip("/").replace("/", "~")
    return f"~{name}" if name in (NO_DEVICE, *OWN_NAMES) else name


def output_folder(target: ConfiguredTarget) -> str:
    """Return a target's folder in the output tree."""
    label = target.node.label
    return "/".join(part for part in (config_name(target.device), label.package, label.name) if part)


def _collect_seen(analyzer: Analyzer, seen: Seen) -> None:
    """Add everything that decided the graph: files that were read, listed, or required to be present or absent."""
    loader, packages = analyzer.loader, analyzer.rules.packages
    read = {**analyzer.entries.read, **loader.files_read(), **analyzer.toolchain_files}
    seen.files.update({path: (s.size, s.ctime_ns, s.inode) for path, s in read.items()})
    for folder in (Path(modelbuild.__file__).parent, *packages.values()):
        for path in (*folder.rglob("*.py"), *folder.glob(REQUIREMENTS)):
            seen.files[str(path)] = stamp(str(path))
        seen.python.update(importable(folders_of(folder)))
    if packages.keys() - {BUILT_IN, LIBRARY}:  # rules of others may import anything
        seen.files.update({path: stamp(path) for path in imported_files()})
    seen.folders.update(loader.folders_listed())
    seen.present.update(loader.files_present())
    seen.absent.update(loader.files_absent())
