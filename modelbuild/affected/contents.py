"""What a change touches that leaves the graph as it was: the same files as before, some with other contents.

Then the base need not be laid out, loaded or analysed, and of the working tree only the targets that name such a file,
or stand on one that does, are analysed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from modelbuild.affected.git import Change
from modelbuild.affected.locks import LOCKS
from modelbuild.affected.signatures import signatures
from modelbuild.affected.versions import Versions
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.graph import closure
from modelbuild.labels import Label
from modelbuild.loading.package import PACKAGE_FILE, Target
from modelbuild.query.package_world import file_location
from modelbuild.query.target_world import TargetWorld
from modelbuild.workspace import WORKSPACE_FILE

_REGULAR = ("100644", "100755")
# More than their own content depends on what is in these.
_MORE = frozenset((*LOCKS, PACKAGE_FILE, WORKSPACE_FILE, ".gitattributes"))


def only_contents(change: Change) -> bool:
    """Whether each changed file is one that was there and is there still, and none is known to decide more."""
    return all(
        change.files.get(path) in _REGULAR
        and path.rpartition("/")[2] not in _MORE
        and not (change.top / path).is_symlink()
        and (change.top / path).is_file()
        for path in change.changed
    )


def touched_by_contents(
    analyzer: Analyzer, change: Change, targets: Sequence[Target], devices: Sequence[Label]
) -> list[Target] | None:
    """Those of `targets` that a change of contents touches; None where the base may have had another graph.

    Raises LoadingError.
    """
    loader = analyzer.loader
    root = Path(os.path.realpath(loader.workspace.root))

    def same(path: str) -> bool:
        """Whether a file of the workspace, or what it links to, is what it was."""
        real = os.path.realpath(root / path)
        return change.same(real[len(str(root)) + 1 :] if real.startswith(f"{root}/") else path)

    world = TargetWorld(loader, analyzer.rules, "")
    dependents: dict[str, list[str]] = defaultdict(list)
    reading: set[str] = set()
    for label in [label for package in loader.packages_below("") for label in world.members(package)]:
        for needed in world.needs(label):
            if world.packages.target(needed) is not None:
                dependents[needed].append(label)
            elif not same(file_location(needed)):
                reading.add(label)
    candidates = closure(reading, dependents)
    standing = {str(device) for device in (*devices, analyzer.default_device) if device is not None}
    if standing & candidates:  # all stand on those
        return None
    chosen = [target for target in targets if str(target.label) in candidates]
    configured = {t.label: [analyzer.analyze(t.label, device) for device in devices or (None,)] for t in chosen}
    if not all(same(path) for path in _of_the_graph(analyzer, root)):
        return None
    made = [each for several in configured.values() for each in several]
    now = signatures(analyzer, made, same, Versions())
    before = signatures(analyzer, made, lambda path: True, Versions())
    return [
        target
        for target in chosen
        if any(now.get(name) is None or now[name] != before.get(name) for name in map(_name, configured[target.label]))
    ]


def _name(target: ConfiguredTarget) -> str:
    return str(target.node)


def _of_the_graph(analyzer: Analyzer, root: Path) -> Iterable[str]:
    """The workspace's files that decided the graph: what was loaded, and the source of rules and steps."""
    yield from (WORKSPACE_FILE, *analyzer.loader.files_read())
    for folder in analyzer.rules.packages.values():
        for file in folder.rglob("*.py"):
            if file.is_relative_to(root):
                yield file.relative_to(root).as_posix()
