"""When only sources changed: which of the targets that were asked for they can touch, so that only those are built.

What a target reads is remembered by label, whatever it is configured for: that may name a target too many, never one
too few. Where all that the touched ones declared is written down, not even they are loaded. Anything else that changed
(a BUILD file, a rule, a package of Python's, a file that came or went) makes the whole way necessary.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from modelbuild.action_graph import ActionGraph
from modelbuild.building.declared import Declared, Wanted, decode
from modelbuild.building.reads import Reads, read
from modelbuild.building.record import Record, keep_times, read_record
from modelbuild.building.request import BuiltTarget
from modelbuild.labels import Label


@dataclass(frozen=True, slots=True)
class Rest:
    """An earlier build of which only the targets `stale` (labels) have to be built again, as the sources `changed`;
    without any, nothing has."""

    record: Record
    reads: Reads
    stale: frozenset[str]
    changed: frozenset[str]

    @property
    def most(self) -> bool:
        """Whether most is to be done again: where that takes loading, the whole way is as short."""
        return 2 * len(self.stale) > len(self.record.targets)

    @property
    def targets(self) -> tuple[BuiltTarget, ...]:
        """Those that are as they were."""
        return tuple(BuiltTarget(*target) for target in self.record.targets if target[0] not in self.stale)

    def merge(self, built: Iterable[BuiltTarget]) -> tuple[BuiltTarget, ...]:
        """All targets in their order, with those that were built anew in their places."""
        new = {(target.label, target.config): target for target in built}
        return tuple(new.get(target[:2]) or BuiltTarget(*target) for target in self.record.targets)

    def declared(self) -> Declared | None:
        """What the stale targets declared, if all of it is written down."""
        lines = {label: self.reads.declared.get(label) for label in self.reads.below(self.stale)}
        if not all(lines.values()):
            return None
        known = {label: decode(line) for label, line in lines.items() if line}
        graph = ActionGraph()
        graph.nodes.update((action.id, action) for actions, _ in known.values() for action in actions)
        wanted = [(label, config) for label, config, _ in self.record.targets if label in self.stale]
        return Declared(
            graph,
            tuple(Wanted(Label.parse(label), config, known[label][1][config]) for label, config in wanted),
            {name: Path(folder) for name, folder in self.reads.packages.items()},
            attributes={},
        )

    def actions(self, reads: Reads | None) -> int:
        """How many actions all targets stand on; `reads` is what was declared anew."""
        if reads is None:
            return self.record.actions
        return self.record.actions + sum(reads.actions.get(s, 0) - self.reads.actions.get(s, 0) for s in self.stale)


def narrow(path: Path, root: str) -> Rest | None:
    """What is left to do since the build whose record is at `path`; None when that takes looking at everything."""
    record = read_record(str(path))
    found = _changes(record, root) if record is not None else None
    if record is None or found is None:
        return None
    changed, damaged = found
    if not changed and not damaged:
        keep_times(str(path), record)
        return Rest(record, Reads(), frozenset(), frozenset())
    reads = read(path, record.token)
    if reads is None or not changed <= {source for sources in reads.sources.values() for source in sources}:
        return None
    touched = reads.readers(changed)
    damaged = {place for path in damaged for place in above(path)}
    stale = {label for label, _, outputs in record.targets if label in touched or not damaged.isdisjoint(outputs)}
    if not stale:
        return None
    return Rest(record, reads, frozenset(stale), frozenset(changed))


def above(path: str) -> Iterator[str]:
    """A path and those of the folders that it is in: a target's output is one of them."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _changes(record: Record, root: str) -> tuple[set[str], set[str]] | None:
    """The files and the outputs that are not as they were; None when something else is not, or a file is no file any
    more."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not record.surroundings_hold(root, folder):
            return None
        files, outputs = set(), set()
        known = record.files
        for path, size, then, inode in zip(known.paths, known.sizes, known.times, known.inodes, strict=True):
            now = os.stat(path, dir_fd=folder)
            if (now.st_size, now.st_ctime_ns, now.st_ino) != (size, then, inode):
                if not stat.S_ISREG(now.st_mode):
                    return None
                files.add(path)
        known = record.outputs
        rows = zip(known.paths, known.sizes, known.times, known.inodes, known.modes, strict=True)
        for path, *then_all in rows:
            try:
                now = os.stat(path, dir_fd=folder)
            except OSError:
                outputs.add(path)
                continue
            if [now.st_size, now.st_mtime_ns, now.st_ino, now.st_mode] != then_all:
                outputs.add(path)
        return files, outputs
    except OSError:
        return None
    finally:
        os.close(folder)
