"""The action graph: who makes which artifact, and what must be made for the artifacts asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import networkx as nx

from modelbuild.actions import Action, Artifact, DerivedArtifact, SourceArtifact
from modelbuild.api.context import Expansion


class ActionGraph:
    """A directed acyclic graph whose nodes are actions and expansions by id; an edge runs from what makes an
    artifact to what reads it. It grows while it is executed."""

    def __init__(self) -> None:
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.nodes: dict[str, Action | Expansion] = {}

    def add_action(self, action: Action) -> None:
        self._add(action)

    def add_expansion(self, expansion: Expansion) -> None:
        self._add(expansion)

    def _add(self, node: Action | Expansion) -> None:
        if self.nodes.setdefault(node.id, node) is not node:
            raise ValueError(f"{node.id} is declared twice; give one of them another name")
        self.graph.add_node(node.id)
        for artifact in reads(node):
            if artifact.action not in self.nodes:
                raise ValueError(f"{node.id} reads '{artifact.output}' of {artifact.action}, which is not declared")
            self.graph.add_edge(artifact.action, node.id)

    def basename(self, artifact: Artifact) -> str:
        """The last part of an artifact's path, as its maker declared it; a promise is called by its own name."""
        if isinstance(artifact, SourceArtifact):
            return artifact.path.rpartition("/")[2]
        if artifact.subpath:
            return artifact.subpath.rpartition("/")[2]
        maker = self.nodes[artifact.action]
        if isinstance(maker, Expansion):
            return artifact.output
        return next(o.path for o in maker.outputs if o.name == artifact.output).rpartition("/")[2]

    def needed_for(self, artifacts: Iterable[Artifact]) -> set[str]:
        """The ids of everything that has to run for these artifacts to exist."""
        roots = {a.action for a in artifacts if isinstance(a, DerivedArtifact)}
        found = set(roots)
        for root in roots:
            if root in found:
                found |= nx.ancestors(self.graph, root)
        return found


def reads(node: Action | Expansion) -> Iterator[DerivedArtifact]:
    """The artifacts that must be there before an action or expansion can go."""
    if isinstance(node, Expansion):
        yield node.reads
    else:
        for item in node.inputs:
            if isinstance(item.artifact, DerivedArtifact):
                yield item.artifact
