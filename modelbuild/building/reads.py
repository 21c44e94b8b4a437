"""What each target of a build read and declared, kept beside the record of it."""

from __future__ import annotations

import json
from binascii import crc32
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.action_graph import closure
from modelbuild.actions import Action, Artifact, Expansion, SourceArtifact
from modelbuild.building.declared import Wanted, encode
from modelbuild.building.record import read_regular, write_whole

if TYPE_CHECKING:
    from modelbuild.analysis.analyze import Analyzer

FORMAT = 4
_SUM = 9  # bytes of the checksum and of the end of its line


@dataclass(slots=True)
class Reads:
    """By label, whatever it is configured for.

    sources   the workspace's files that its actions read or that it gives
    needs     the labels it stands on
    actions   how many actions it took
    declared  its actions and files, see declared.encode(); '' where that cannot be
    packages  not by label: the folder of each rule package, by import name
    """

    sources: dict[str, list[str]] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)

    def readers(self, changed: AbstractSet[str]) -> set[str]:
        """The labels that files with these paths can touch."""
        dependents = defaultdict(list)
        for label, needs in self.needs.items():
            for needed in needs:
                dependents[needed].append(label)
        return closure({label for label, s in self.sources.items() if not changed.isdisjoint(s)}, dependents)

    def below(self, labels: Iterable[str]) -> set[str]:
        """These labels and all that they stand on."""
        return closure(set(labels), self.needs)


def gather(analyzer: Analyzer, wanted: Iterable[Wanted], ran: Iterable[str], loaded: Collection[str]) -> Reads:
    """What the analysed targets read and declared. `ran`: ids of the actions that were needed; `loaded`: files that
    loading read, which are never sources alone."""
    sources: dict[str, set[str]] = defaultdict(set)
    needs: dict[str, set[str]] = defaultdict(set)
    owned: dict[str, list[Action | Expansion]] = defaultdict(list)
    files: dict[str, dict[str, tuple[Artifact, ...]]] = defaultdict(dict)
    nodes = analyzer.graph.nodes
    for node, dependencies in analyzer.dependencies.items():
        needs[str(node.label)].update(str(other.label) for other in dependencies)
    for name, item in nodes.items():
        label = _label(item.owner)
        owned[label].append(item)
        needs[label].update(_label(nodes[maker].owner) for maker in analyzer.graph.makers(name))
        if isinstance(item, Action):
            sources[label].update(i.artifact.path for i in item.inputs if isinstance(i.artifact, SourceArtifact))
    for target in analyzer.targets.values():
        sources[str(target.node.label)].update(a.path for a in target.files() if isinstance(a, SourceArtifact))
    for asked in wanted:
        files[str(asked.label)][asked.config] = asked.files
    return Reads(
        {label: sorted(paths - set(loaded)) for label, paths in sources.items()},
        {label: sorted(others - {label}) for label, others in needs.items()},
        dict(Counter(_label(nodes[name].owner) for name in ran)),
        {label: encode(owned[label], files[label]) or "" for label in needs},
        {name: str(folder) for name, folder in analyzer.rules.packages.items()},
    )


def _label(owner: str) -> str:
    """An owner is a label, and where the target is configured, the device's in parentheses."""
    return owner.partition(" ")[0]


def merged(old: Reads, new: Reads, stale: Collection[str]) -> Reads:
    """What is known after targets `stale` were built again. They and what they stand on were analysed as well, but
    perhaps not for all devices for which they were before, and not all was needed: so what was known of them stays."""
    actions = {label: count for label, count in new.actions.items() if label in stale or label not in old.actions}
    return Reads(
        _union(old.sources, new.sources),
        _union(old.needs, new.needs),
        old.actions | actions,
        new.declared | old.declared,
        new.packages,
    )


def _union(old: dict[str, list[str]], new: dict[str, list[str]]) -> dict[str, list[str]]:
    return old | {label: sorted({*old.get(label, ()), *names}) for label, names in new.items()}


def write(path: Path, reads: Reads, token: int) -> None:
    """Keep beside the record at `path` that has this token. Raises OSError."""
    header = json.dumps([FORMAT, token, reads.sources, reads.needs, reads.actions, reads.packages])
    data = "\n".join([header, *(f"{label}\t{line}" for label, line in reads.declared.items())]).encode()
    write_whole(f"{path}.reads", _checksum(data) + data)


def read(path: Path, token: int) -> Reads | None:
    """None when there is none, or one that is damaged or of another build than the record with this token."""
    whole = read_regular(f"{path}.reads")
    checksum, data = whole[:_SUM], whole[_SUM:]
    if checksum != _checksum(data):
        return None
    header, *lines = data.decode().split("\n")
    version, of, sources, needs, actions, packages = json.loads(header)
    if (version, of) != (FORMAT, token):
        return None
    return Reads(sources, needs, actions, dict(_pair(line) for line in lines), packages)


def _checksum(data: bytes) -> bytes:
    return f"{crc32(data):08x}\n".encode()


def _pair(line: str) -> tuple[str, str]:
    label, _, declared = line.partition("\t")
    return label, declared
