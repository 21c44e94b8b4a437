"""When only sources changed: which of the targets that were asked for they can touch, so that only those are built.

What a target reads is remembered by label, whatever it is configured for: that may name a target too many, never one
too few. Anything else that changed (a BUILD file, a rule, a package of Python's, a file that came or went) makes the
whole way necessary.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.building.record import Record, read_record
from modelbuild.building.request import BuiltTarget

if TYPE_CHECKING:
    from modelbuild.analysis.analyze import Analyzer

FORMAT = 1


@dataclass(slots=True)
class Reads:
    """By label: the workspace's files that its actions read or that it gives, the labels it stands on, and how many
    actions it took."""

    sources: dict[str, list[str]] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)

    def readers(self, changed: AbstractSet[str]) -> set[str]:
        """The labels that files with these paths can touch."""
        dependents = defaultdict(list)
        for label, needs in self.needs.items():
            for needed in needs:
                dependents[needed].append(label)
        found = {label for label, sources in self.sources.items() if not changed.isdisjoint(sources)}
        waiting = list(found)
        while waiting:
            new = set(dependents[waiting.pop()]) - found
            found |= new
            waiting += new
        return found


@dataclass(frozen=True, slots=True)
class Rest:
    """An earlier build of which only the targets `stale` (labels) have to be built again, as the sources `changed`."""

    record: Record
    reads: Reads
    stale: frozenset[str]
    changed: frozenset[str]

    @property
    def targets(self) -> tuple[BuiltTarget, ...]:
        """Those that are as they were."""
        return tuple(BuiltTarget(*target) for target in self.record.targets if target[0] not in self.stale)

    def merge(self, built: Iterable[BuiltTarget]) -> tuple[BuiltTarget, ...]:
        """All targets in their order, with those that were built anew in their places."""
        new = {(target.label, target.config): target for target in built}
        return tuple(new.get(target[:2]) or BuiltTarget(*target) for target in self.record.targets)

    def actions(self, reads: Reads) -> int:
        """How many actions all targets stand on."""
        return self.record.actions + sum(reads.actions.get(s, 0) - self.reads.actions.get(s, 0) for s in self.stale)


def narrow(path: Path, root: str) -> Rest | None:
    """What is left to do since the build whose record is at `path`; None when that takes looking at everything."""
    record = read_record(str(path))
    reads = read(path) if record is not None else None
    if record is None or reads is None:
        return None
    found = _changes(record, root)
    if found is None:
        return None
    changed, damaged = found
    if not changed <= {source for sources in reads.sources.values() for source in sources}:
        return None
    touched = reads.readers(changed)
    stale = {label for label, _, outputs in record.targets if label in touched or not damaged.isdisjoint(outputs)}
    # Where most is to be done again, the whole way is as short.
    if not stale or 2 * len(stale) > len(record.targets):
        return None
    return Rest(record, reads, frozenset(stale), frozenset(changed))


def _changes(record: Record, root: str) -> tuple[set[str], set[str]] | None:
    """The files and the outputs that are not as they were; None when something else is not, or a file is gone."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not record.surroundings_hold(root, folder):
            return None
        files, outputs = set(), set()
        known = record.files
        for path, size, then, inode in zip(known.paths, known.sizes, known.times, known.inodes, strict=True):
            now = os.stat(path, dir_fd=folder)
            if (now.st_size, now.st_ctime_ns, now.st_ino) != (size, then, inode):
                files.add(path)
        known = record.outputs
        for path, size, then, inode in zip(known.paths, known.sizes, known.times, known.inodes, strict=True):
            try:
                now = os.stat(path, dir_fd=folder)
            except FileNotFoundError:
                outputs.add(path)
                continue
            if (now.st_size, now.st_mtime_ns, now.st_ino) != (size, then, inode):
                outputs.add(path)
        return files, outputs
    except OSError:
        return None
    finally:
        os.close(folder)


def gather(analyzer: Analyzer, ran: Iterable[str], loaded: Collection[str]) -> Reads:
    """What the analysed targets read. `ran`: ids of the actions that were needed; `loaded`: files that loading read,
    which are never sources alone."""
    from modelbuild.actions import Action, SourceArtifact

    sources: dict[str, set[str]] = defaultdict(set)
    needs: dict[str, set[str]] = defaultdict(set)
    nodes = analyzer.graph.nodes
    for node, dependencies in analyzer.dependencies.items():
        needs[str(node.label)].update(str(other.label) for other in dependencies)
    for name, item in nodes.items():
        label = _label(item.owner)
        needs[label].update(_label(nodes[maker].owner) for maker in analyzer.graph.makers(name))
        if isinstance(item, Action):
            sources[label].update(i.artifact.path for i in item.inputs if isinstance(i.artifact, SourceArtifact))
    for target in analyzer.targets.values():
        sources[str(target.node.label)].update(a.path for a in target.files() if isinstance(a, SourceArtifact))
    return Reads(
        {label: sorted(paths - set(loaded)) for label, paths in sources.items()},
        {label: sorted(others - {label}) for label, others in needs.items()},
        dict(Counter(_label(nodes[name].owner) for name in ran)),
    )


def _label(owner: str) -> str:
    """An owner is a label, and where the target is configured, the device's in parentheses."""
    return owner.partition(" ")[0]


def merged(old: Reads, new: Reads, stale: Collection[str]) -> Reads:
    """What is known after targets `stale` were built again. What they stand on was analysed as well, but perhaps not
    all of it was needed: the number of its actions stays."""
    actions = {label: count for label, count in new.actions.items() if label in stale or label not in old.actions}
    return Reads(old.sources | new.sources, old.needs | new.needs, old.actions | actions)


def write(path: Path, reads: Reads) -> None:
    """Keep beside the record at `path`."""
    temporary = f"{path}.reads.{os.getpid()}"
    with open(temporary, "w") as file:
        json.dump([FORMAT, reads.sources, reads.needs, reads.actions], file)
    os.replace(temporary, f"{path}.reads")


def read(path: Path) -> Reads | None:
    with suppress(OSError, ValueError):
        with open(f"{path}.reads") as file:
            version, sources, needs, actions = json.load(file)
        if version == FORMAT:
            return Reads(sources, needs, actions)
    return None
