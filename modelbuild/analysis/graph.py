"""The action graph: who makes which artifact, and what must be made for the artifacts asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from modelbuild.actions import Action, Artifact, DerivedArtifact, Expansion, SourceArtifact


class ActionGraph:
    """A directed acyclic graph whose nodes are actions and expansions by id; each knows what makes the artifacts that
    it reads. It grows while it is executed.

    complete   adds to a declared action what its step is known by, or refuses it
    """

    def __init__(self, complete: Callable[[Action], Action] = lambda action: action) -> None:
        self.nodes: dict[str, Action | Expansion] = {}
        self._complete = complete

    def add_action(self, action: Action) -> None:
        self._add(self._complete(action))

    def add_expansion(self, expansion: Expansion) -> None:
        self._add(expansion)

    def _add(self, node: Action | Expansion) -> None:
        if self.nodes.setdefault(node.id, node) is not node:
            raise ValueError(f"{node.id} is declared twice; give one of them another name")
        for artifact in reads(node):
            if artifact.action not in self.nodes:
                raise ValueError(f"{node.id} reads '{artifact.output}' of {artifact.action}, which is not declared")

    def makers(self, node: str) -> set[str]:
        """The ids of what makes the artifacts that a node reads."""
        return {artifact.action for artifact in reads(self.nodes[node])}

    def basename(self, artifact: Artifact) -> str:
        """The last part of an artifact's path, as its maker declared it, or who promised it."""
        if isinstance(artifact, SourceArtifact):
            return artifact.path.rpartition("/")[2]
        if artifact.subpath:
            return artifact.subpath.rpartition("/")[2]
        maker = self.nodes[artifact.action]
        if isinstance(maker, Expansion):
            return maker.names[maker.promises.index(artifact.output)].rpartition("/")[2]
        return next(o.path for o in maker.outputs if o.name == artifact.output).rpartition("/")[2]

    def is_promise(self, artifact: Artifact) -> bool:
        """Whether what makes an artifact, and how that calls it, is known only when an expansion has gone."""
        return isinstance(artifact, DerivedArtifact) and isinstance(self.nodes[artifact.action], Expansion)

    def needed_for(self, artifacts: Iterable[Artifact]) -> set[str]:
        """The ids of everything that has to run for these artifacts to exist."""
        found = {a.action for a in artifacts if isinstance(a, DerivedArtifact)}
        waiting = list(found)
        while waiting:
            makers = self.makers(waiting.pop()) - found
            found |= makers
            waiting += makers
        return found


def reads(node: Action | Expansion) -> Iterator[DerivedArtifact]:
    """The artifacts that must be there before an action or expansion can go."""
    if isinstance(node, Expansion):
        yield node.reads
    else:
        for item in node.inputs:
            if isinstance(item.artifact, DerivedArtifact):
                yield item.artifact


def closure(names: set[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """These names and all that edges lead to from them."""
    found, waiting = set(names), list(names)
    while waiting:
        new = set(edges.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found
