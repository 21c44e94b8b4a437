"""Load the targets asked for and have their rules declare what is to be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import modelbuild
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.rules import load_rules
from modelbuild.api.providers import Runnable
from modelbuild.building.declared import Declared, Wanted
from modelbuild.building.imports import folders_of, importable
from modelbuild.building.reads import Reads, gather
from modelbuild.building.request import Request
from modelbuild.building.snapshot import Seen, stamp
from modelbuild.events import Loaded, Reporter
from modelbuild.explain.facts import attributes_of
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.loading.patterns import expand_patterns
from modelbuild.store.output_tree import OWN_NAMES
from modelbuild.workspace import Workspace

# The configuration of targets that are built for no device.
NO_DEVICE = "default"


def declare(workspace: Workspace, request: Request, reporter: Reporter) -> Declared:
    """Raises UsageError and LoadingError."""
    rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations())
    analyzer = Analyzer(Loader(workspace, rules.by_name), rules, workspace.config.default_device)
    targets = analyze(analyzer, request, reporter)
    wanted = tuple(_wanted(analyzer, target) for target in targets)
    return Declared(
        analyzer.graph,
        wanted,
        analyzer.rules.packages,
        attributes_of(analyzer),
        partial(_reads, analyzer, wanted),
    )


def analyze(analyzer: Analyzer, request: Request, reporter: Reporter) -> list[ConfiguredTarget]:
    """The targets asked for, in each configuration asked for. Raises UsageError and LoadingError."""
    targets = expand_patterns(analyzer.loader, request.patterns, request.package)
    reporter.emit(Loaded(len(targets)))
    devices: Iterable[Label | None] = request.devices or (None,)
    return [analyzer.analyze(target.label, device) for device in devices for target in targets]


def config_name(device: Label | None) -> str:
    """Return a configuration's folder in the output tree: its device's label with '~' for '/' and ':', which no label
    has, and with a '~' before it where the folder would be another's."""
    if device is None:
        return NO_DEVICE
    name = f"{device.package}/{device.name}".strip("/").replace("/", "~")
    return f"~{name}" if name in (NO_DEVICE, *OWN_NAMES) else name


def look_back(analyzer: Analyzer, seen: Seen) -> None:
    """Collect everything that decided the graph: what was read, listed, or relied on not to be there."""
    loader, packages = analyzer.loader, analyzer.rules.packages
    seen.files.update({path: (s.size, s.ctime_ns, s.inode) for path, s in loader.files_read().items()})
    for folder in (Path(modelbuild.__file__).parent, *packages.values()):
        for path in folder.rglob("*.py"):
            seen.files[str(path)] = stamp(str(path))
        seen.python.update(importable(folders_of(folder)))
    seen.folders.update(loader.folders_listed())
    seen.present.update(loader.files_present())
    seen.absent.update(loader.files_absent())


def _wanted(analyzer: Analyzer, target: ConfiguredTarget) -> Wanted:
    label = target.node.label
    return Wanted(
        label,
        config_name(target.device),
        target.files(),
        lambda: analyzer.loader.target(label, None).location(()),
        next((p.input_names for p in target.providers if isinstance(p, Runnable)), None),
    )


def _reads(analyzer: Analyzer, wanted: Sequence[Wanted], ran: Iterable[str], seen: Seen) -> Reads:
    look_back(analyzer, seen)
    return gather(analyzer, wanted, ran, analyzer.loader.files_read())
