"""Targets affected by a change that leaves the graph unchanged: the same files, some with other contents.

The base is not laid out, loaded or analysed. Of the working tree, only targets that name a changed file, or depend on a
target that does, are analysed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from modelbuild.action_graph import closure
from modelbuild.affected.git import Change
from modelbuild.affected.revision_process import in_child
from modelbuild.affected.signatures import Revision, signatures
from modelbuild.affected.unchanged import changed_engine
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.open import open_analyzer
from modelbuild.errors import ModelbuildError
from modelbuild.labels import Label
from modelbuild.loading.package import Target
from modelbuild.loading.patterns import expand_patterns
from modelbuild.query.package_world import file_location
from modelbuild.query.target_world import TargetWorld
from modelbuild.workspace.workspace import WORKSPACE_FILE, Workspace


def in_working_tree(
    workspace: Workspace, patterns: Sequence[str], current: str, devices: Sequence[Label], change: Change
) -> list[tuple[str, str]] | None:
    """Return label and rule of each affected target; None if both revisions must be compared, which also reports
    errors."""
    touched = in_child(lambda: {"touched": _in_working_tree(workspace, patterns, current, devices, change)})
    return touched["touched"] and [(label, rule) for label, rule in touched["touched"]]


def _in_working_tree(
    workspace: Workspace, patterns: Sequence[str], current: str, devices: Sequence[Label], change: Change
) -> list[tuple[str, str]] | None:
    if changed_engine(workspace, change):
        return None
    try:
        analyzer = open_analyzer(workspace)
        world = TargetWorld(analyzer.loader, analyzer.rules, "")
        targets = expand_patterns(analyzer.loader, patterns, current)
        touched = touched_by_contents(analyzer, world, change, targets, devices)
    except ModelbuildError:
        return None
    if touched is None:
        return None
    return [(str(target.label), target.rule) for target in touched]


def touched_by_contents(
    analyzer: Analyzer, world: TargetWorld, change: Change, targets: Sequence[Target], devices: Sequence[Label]
) -> list[Target] | None:
    """Return the affected targets among `targets`; None if the base may have another graph.

    Raises LoadingError.
    """
    loader = analyzer.loader
    root = Path(os.path.realpath(loader.workspace.root))
    same = change.same_at(root)
    dependents: dict[str, list[str]] = defaultdict(list)
    reading: set[str] = set()
    for label in [label for package in loader.packages_below("") for label in world.packages.members(package)]:
        for needed in world.needs(label):
            if world.packages.target(needed) is not None:
                dependents[needed].append(label)
            elif not same(file_location(needed)):
                reading.add(label)
    candidates = closure(reading, dependents)
    toolchain = loader.workspace.config.toolchain
    configuring = {str(label) for label in (*devices, analyzer.default_device, toolchain) if label is not None}
    if configuring & candidates:  # every target depends on them
        return None
    chosen = [target for target in targets if str(target.label) in candidates]
    configured = {t.label: [analyzer.analyze(t.label, device) for device in devices or (None,)] for t in chosen}
    if not all(same(path) for path in _of_the_graph(analyzer, root)):
        return None
    made = [each for several in configured.values() for each in several]
    now = signatures(analyzer, made, Revision(root, same))
    before = signatures(analyzer, made, Revision(root, lambda path: True))
    return [
        target
        for target in chosen
        if any(now.get(name) is None or now[name] != before.get(name) for name in map(_name, configured[target.label]))
    ]


def _name(target: ConfiguredTarget) -> str:
    return str(target.node)


def _of_the_graph(analyzer: Analyzer, root: Path) -> Iterable[str]:
    """Yield the workspace's files that decide the graph: loaded files, and the sources of rules and steps."""
    yield from (WORKSPACE_FILE, *analyzer.loader.files_read())
    for folder in analyzer.rules.packages.values():
        for file in folder.rglob("*.py"):
            if file.is_relative_to(root):
                yield file.relative_to(root).as_posix()
