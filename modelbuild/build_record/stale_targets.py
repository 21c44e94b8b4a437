"""The targets that changed sources can affect. Only those are built if nothing else changed.

The record lists a target's inputs by label, for all its configurations together: that may make a target stale
unnecessarily, but never misses one. After any other change (a BUILD file, a rule, a Python package, a file that was
added or removed) all targets are loaded and analysed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from modelbuild.build_record.record import Record, keep_times, read_record
from modelbuild.build_record.target_reads import TargetReads, read_reads


@dataclass(frozen=True, slots=True)
class BuiltTarget:
    """A requested target, its outputs, relative to the workspace, and the name of its toolchain ('' for a test)."""

    label: str
    config: str
    outputs: tuple[str, ...]
    toolchain: str = ""


@dataclass(frozen=True, slots=True)
class StaleTargets:
    """The targets (labels) of an earlier build that are stale since the sources `changed`."""

    record: Record
    reads: TargetReads
    labels: frozenset[str]
    changed: frozenset[str]

    @property
    def most(self) -> bool:
        """Return whether more than half of the targets are stale; a full build is then as fast."""
        return 2 * len(self.labels) > len(self.record.targets)

    @property
    def fresh(self) -> tuple[BuiltTarget, ...]:
        """The targets that are not stale."""
        return tuple(BuiltTarget(*target) for target in self.record.targets if target[0] not in self.labels)

    def merge(self, built: Iterable[BuiltTarget]) -> tuple[BuiltTarget, ...]:
        """Return all targets in their order, with the rebuilt targets in their places."""
        new = {(target.label, target.config): target for target in built}
        return tuple(new.get(target[:2]) or BuiltTarget(*target) for target in self.record.targets)

    def actions(self, reads: TargetReads) -> int:
        """Return the number of actions that all targets depend on; `reads` are the reads of the rebuilt targets."""
        return self.record.actions + sum(reads.actions.get(s, 0) - self.reads.actions.get(s, 0) for s in self.labels)


def find_stale(path: Path, root: str) -> StaleTargets | None:
    """Return the stale targets since the build with the record at `path`; None if all targets must be loaded and
    analysed to find them. Files with new times and equal contents are unchanged."""
    record = read_record(str(path))
    found = record.changes(root) if record is not None else None
    if record is None or found is None:
        return None
    changed, damaged = found
    reads = read_reads(path, record.token) if changed or damaged else TargetReads()
    if changed and reads is not None:
        # A build with nothing to do does not need this.
        from modelbuild.build_record.contents import changed_contents

        changed = changed_contents(root, record, reads.contents, changed)
        record.surroundings.moved = True
    if not changed and not damaged:
        keep_times(str(path), record)
        return StaleTargets(record, TargetReads(), frozenset(), frozenset())
    if reads is None or not changed <= {source for sources in reads.sources.values() for source in sources}:
        return None
    touched = reads.readers(changed)
    damaged = {place for path in damaged for place in above(path)}
    stale = {label for label, _, outputs, _ in record.targets if label in touched or not damaged.isdisjoint(outputs)}
    if not stale:
        return None
    return StaleTargets(record, reads, frozenset(stale), frozenset(changed))


def above(path: str) -> Iterator[str]:
    """Yield a path and its parent folders, any of which may be a target's output."""
    while path:
        yield path
        path = path.rpartition("/")[0]
