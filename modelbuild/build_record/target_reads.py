"""The files and targets that each target of a build depends on, and the contents of these files, stored next to the
build's record."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.action_graph import closure
from modelbuild.actions import Action, SourceArtifact
from modelbuild.build_record.reads_file import read_columns, write_columns

if TYPE_CHECKING:
    from modelbuild.analysis.analyze import Analyzer


@dataclass(slots=True)
class TargetReads:
    """By label, for all configurations of a target.

    sources   the workspace's files that its actions read or that it provides
    needs     the labels that it depends on
    actions   number of its actions
    contents  the contents of files in the workspace that the build read, by path instead (see contents.py)
    """

    sources: dict[str, list[str]] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)

    def readers(self, changed: AbstractSet[str]) -> set[str]:
        """Return the labels that depend on files with these paths."""
        dependents = defaultdict(list)
        for label, needs in self.needs.items():
            for needed in needs:
                dependents[needed].append(label)
        return closure({label for label, s in self.sources.items() if not changed.isdisjoint(s)}, dependents)


def gather_reads(analyzer: Analyzer, ran: Iterable[str], loaded: Collection[str]) -> TargetReads:
    """Return the dependencies of the analysed targets.

    ran     ids of the required actions
    loaded  files that loading read; a change of one of them affects more than the targets that name it as a source
    """
    sources: dict[str, set[str]] = defaultdict(set)
    needs: dict[str, set[str]] = defaultdict(set)
    nodes = analyzer.graph.nodes
    for node, dependencies in analyzer.dependencies.items():
        needs[str(node.label)].update(str(other.label) for other in dependencies)
    for name, item in nodes.items():
        label = item.owner.label
        needs[label].update(nodes[maker].owner.label for maker in analyzer.graph.makers(name))
        if isinstance(item, Action):
            sources[label].update(i.artifact.path for i in item.inputs if isinstance(i.artifact, SourceArtifact))
    for target in analyzer.targets.values():
        sources[str(target.node.label)].update(a.path for a in target.files() if isinstance(a, SourceArtifact))
    return TargetReads(
        {label: sorted(paths - set(loaded)) for label, paths in sources.items()},
        {label: sorted(others - {label}) for label, others in needs.items()},
        dict(Counter(nodes[name].owner.label for name in ran)),
    )


def merge_reads(old: TargetReads, new: TargetReads, stale: Collection[str]) -> TargetReads:
    """Return the merged dependencies after targets `stale` were rebuilt. They and their dependencies were analysed
    again, but perhaps not for all earlier devices, and not all actions were required, so the old dependencies stay."""
    actions = {label: count for label, count in new.actions.items() if label in stale or label not in old.actions}
    contents = old.contents | new.contents
    return TargetReads(_union(old.sources, new.sources), _union(old.needs, new.needs), old.actions | actions, contents)


def _union(old: dict[str, list[str]], new: dict[str, list[str]]) -> dict[str, list[str]]:
    return old | {label: sorted({*old.get(label, ()), *names}) for label, names in new.items()}


def write_reads(path: Path, reads: TargetReads, token: int) -> None:
    """Write next to the record at `path`, with this token. Raises OSError."""
    write_columns(str(path), token, [reads.sources, reads.needs, reads.actions, reads.contents])


def read_reads(path: Path, token: int) -> TargetReads | None:
    """Return the dependencies; None if they are missing, damaged or belong to a record with another token."""
    columns = read_columns(str(path), token)
    return None if columns is None else TargetReads(*columns)
