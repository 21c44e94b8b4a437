"""Which files each target of an analysed workspace stands on, to be kept for later questions (see known.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import modelbuild
from modelbuild.action_graph import closure
from modelbuild.actions import Action, Artifact, Expansion, SourceArtifact
from modelbuild.affected.known import ALWAYS, Facts, Known
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.execution.step_code import StepCode
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.query.actions import owner_of
from modelbuild.query.package_world import file_location
from modelbuild.query.target_world import TargetWorld
from modelbuild.workspace import WORKSPACE_FILE

# A node: a file ('f'), what a label's attributes name ('l'), an action or expansion ('n'), all that a configured target
# names, and what that needs ('c'), what a label's actions make ('t').
_Name = tuple[str, str]


def keep(known: Known, analyzer: Analyzer, world: TargetWorld, devices: Sequence[Label]) -> None:
    """Analyse every target, and keep what each reads. Raises LoadingError; nothing is kept where git cannot vouch for
    all that decided the graph."""
    loader = analyzer.loader
    labels = [label for package in loader.packages_below("") for label in world.members(package)]
    configured = [analyzer.analyze(Label.parse(label), device) for device in devices or (None,) for label in labels]
    readers = _Readers(known, analyzer)
    readers.attributes(world, labels)
    readers.actions()
    for target in configured:
        readers.target(target)
    readers.own_closures()
    places = [readers.place(path) for path in sorted({WORKSPACE_FILE, *loader.files_read(), *known.rule_sources()})]
    if any(place is None or not known.regular(place) for place in places):
        return
    facts = Facts(
        {path: stamp.names for path, stamp in loader.folders_listed().items()},
        sorted(loader.files_absent()),
        {place: known.blob(place) for place in places if place is not None},
        readers.links,
        loader.packages_below(""),
    )
    numbers: dict[_Name, int] = {("f", ""): ALWAYS}
    edges = {tuple(numbers.setdefault(name, len(numbers)) for name in edge) for edge in readers.edges}
    targets = [_target(loader, Label.parse(label), numbers) for label in labels]
    files = {name: number for (kind, name), number in numbers.items() if kind == "f"}
    known.save(facts, files, edges, targets)  # type: ignore[arg-type]


def _target(loader: Loader, label: Label, numbers: dict[_Name, int]) -> tuple[int, int, str, str, bool]:
    declared = loader.target(label)
    named, made = (numbers.setdefault((kind, str(label)), len(numbers)) for kind in "lt")
    return named, made, str(label), declared.rule, "manual" in declared.tags


class _Readers:
    """Edges from what is read to what reads it."""

    def __init__(self, known: Known, analyzer: Analyzer) -> None:
        self.edges: list[tuple[_Name, _Name]] = []
        self.links: dict[str, str] = {}
        self._known = known
        self._analyzer = analyzer
        self._own: dict[str, list[str]] = defaultdict(list)
        self._files: dict[str, list[str]] = defaultdict(list)
        for node in analyzer.graph.nodes.values():
            self._own[node.owner].append(node.id)

    def attributes(self, world: TargetWorld, labels: Iterable[str]) -> None:
        """What is named by the attributes of each label."""
        for label in labels:
            for needed in world.needs(label):
                if world.packages.target(needed) is not None:
                    self.edges.append((("l", needed), ("l", label)))
                else:
                    path = file_location(needed)
                    self._files[label].append(path)
                    self._read(path, ("l", label))

    def actions(self) -> None:
        """What is read by each action; by an expansion, anything that its rule saw. A step that is not there has no
        signature, and so always another one."""
        code = StepCode({"modelbuild": Path(modelbuild.__file__).parent, **self._analyzer.rules.packages})
        missing: dict[str, bool] = {}
        for node in self._analyzer.graph.nodes.values():
            if isinstance(node, Expansion):
                self._artifact(node.reads, ("n", node.id))
                self.edges.append((("c", node.owner), ("n", node.id)))
                continue
            for item in node.inputs:
                self._artifact(item.artifact, ("n", node.id))
            if node.step not in missing:
                missing[node.step] = _missing(code, node)
            if missing[node.step]:
                self._read("", ("n", node.id))

    def target(self, target: ConfiguredTarget) -> None:
        """What a target makes: its own actions, and the files that it gives."""
        made = ("t", str(target.node.label))
        self.edges += [(("n", name), made) for name in self._own[owner_of(target)]]
        for artifact in target.files():
            self._artifact(artifact, made)

    def own_closures(self) -> None:
        """What all targets that an expansion's owner needs name, itself among them."""
        owners = {node.owner for node in self._analyzer.graph.nodes.values() if isinstance(node, Expansion)}
        targets = {owner_of(target): target for target in self._analyzer.targets.values()}
        needs = {
            name: [owner_of(self._analyzer.targets[node]) for node in self._analyzer.dependencies[target.node]]
            for name, target in targets.items()
        }
        for name in closure(owners, needs):
            self.edges += [(("c", needed), ("c", name)) for needed in needs[name]]
            for path in self._files[str(targets[name].node.label)]:
                self._read(path, ("c", name))

    def _artifact(self, artifact: Artifact, reader: _Name) -> None:
        if isinstance(artifact, SourceArtifact):
            self._read(artifact.path, reader)
        else:
            self.edges.append((("n", artifact.action), reader))

    def _read(self, path: str, reader: _Name) -> None:
        place = self.place(path) if path else ""
        if place is not None:
            self.edges.append((("f", place), reader))

    def place(self, path: str) -> str | None:
        """The file of git's that a path of the workspace is in the end; '' for one that git has not, None for one
        outside of the repository that git has the link to."""
        if self._known.regular(path):
            return path
        real = self.links.setdefault(path, self._known.leads(path))
        if real:
            return real if self._known.regular(real) else ""
        return None if self._known.tracked(path) else ""


def _missing(code: StepCode, action: Action) -> bool:
    try:
        code.closure(*action.modules)
    except (KeyError, OSError):
        return True
    return False
